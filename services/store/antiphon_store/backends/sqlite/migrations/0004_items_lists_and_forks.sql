-- The responses of a session, in the order of List.
CREATE INDEX node_by_session ON node (tenant, session_id, created_at_ms, place & 16777215, id)
WHERE session_id IS NOT NULL;

-- The responses that an item is in. Written with the response (from what the service read in it), gone with it.
CREATE TABLE item (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL, -- of the response
    PRIMARY KEY (tenant, id, place)
) WITHOUT ROWID;
CREATE INDEX item_by_place ON item (place);
CREATE TRIGGER item_goes_with_node AFTER DELETE ON node BEGIN DELETE FROM item WHERE place = OLD.place; END;

-- What was stored before has its items found as well. `items` lacks the brackets of an array (packing.py).
INSERT OR IGNORE INTO item (tenant, id, place)
SELECT node.tenant, json_extract(entry.value, '$.id'), node.place
FROM node, json_each('[' || CAST(node.items AS TEXT) || ']') AS entry
WHERE node.items <> x'' AND json_valid('[' || CAST(node.items AS TEXT) || ']');

-- The forks that were made, so that one that is asked for again gets the same answer. '' stands for what was not named.
CREATE TABLE fork (
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    source_session_id TEXT NOT NULL,
    source_response_id TEXT NOT NULL,
    head_id TEXT NOT NULL,
    PRIMARY KEY (tenant, session_id)
) WITHOUT ROWID;
