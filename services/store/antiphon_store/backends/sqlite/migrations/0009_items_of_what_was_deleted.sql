-- What was deleted has no items that can be found; from now on that takes its rows away. What is left are additions to
-- conversations, which are born deleted: find_item asks whether they stand in a context.
DELETE FROM item WHERE place IN (SELECT place FROM node WHERE deleted = 1);
