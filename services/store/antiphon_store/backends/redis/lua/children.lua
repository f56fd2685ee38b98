#!lua flags=no-writes
-- Reads a page of the responses that continue one.
-- needs: clock nodes lineage pages
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, birth and id where the page before ended, limit
-- Answer: ok, metas, numbers of readable children, whether there are more; or a refusal
-- Indivisible: that the response is readable, and the page as of one moment.

local tree = tree_of(ARGV[4])
local node = find(tree, ARGV[4])
if not node or not is_readable(node) then
  return {'response_not_found', ARGV[4]}
end
return page_of(tree, children_of(tree, node), ARGV[5], ARGV[6], tonumber(ARGV[7]))
