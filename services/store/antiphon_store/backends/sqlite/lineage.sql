-- The statements of lineage (forks, trees, lists, items), by name. Places: places.py.

-- name: read_origin
-- What a readable response is as the source of a fork: whether it has ended, and the session that it was made in.
SELECT status, session_id FROM node
WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms);

-- name: read_header
-- What a readable response's stamp is made of, without its content.
SELECT status, version, place, created_at_ms, updated_at_ms, expires_at_ms FROM node
WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms);

-- name: write_status
UPDATE node SET status = :status, version = :version, updated_at_ms = :updated_at_ms
WHERE tenant = :tenant AND id = :id;

-- name: read_fork
SELECT source_session_id, source_response_id, head_id FROM fork WHERE tenant = :tenant AND session_id = :session_id;

-- name: write_fork
INSERT INTO fork (tenant, session_id, source_session_id, source_response_id, head_id)
VALUES (:tenant, :session_id, :source_session_id, :source_response_id, :head_id)
ON CONFLICT (tenant, session_id) DO UPDATE SET source_session_id = excluded.source_session_id,
    source_response_id = excluded.source_response_id, head_id = excluded.head_id;

-- name: list_ascending
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body
FROM node
WHERE tenant = :tenant AND session_id = :session_id
    AND (created_at_ms, place & 16777215, id) > (:created_at_ms, :depth, :id)
    AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
ORDER BY created_at_ms, place & 16777215, id;

-- name: list_descending
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body
FROM node
WHERE tenant = :tenant AND session_id = :session_id
    AND (created_at_ms, place & 16777215, id) < (:created_at_ms, :depth, :id)
    AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
ORDER BY created_at_ms DESC, place & 16777215 DESC, id DESC;

-- name: insert_item
INSERT INTO item (tenant, id, place) VALUES (:tenant, :id, :place);

-- name: drop_items
DELETE FROM item WHERE place = :place;

-- name: find_item
-- The oldest readable response that has the item, or addition to a conversation in whose context it stands: that is on
-- the way from the session's head to the root.
SELECT node.place FROM item CROSS JOIN node ON node.place = item.place
WHERE item.tenant = :tenant AND item.id = :id AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    AND (deleted = 0 OR NOT EXISTS (
        SELECT 1 FROM removed_item
        WHERE removed_item.tenant = :tenant AND conversation_id = node.session_id AND item_id = :id
    ) AND EXISTS (
        WITH RECURSIVE segment (first, last) AS (
            SELECT head.place & ~16777215, head.place
            FROM session CROSS JOIN node AS head ON head.tenant = session.tenant AND head.id = session.head_id
            WHERE session.tenant = :tenant AND session.id = node.session_id
                AND (head.expires_at_ms IS NULL OR head.expires_at_ms > :now_ms)
            UNION ALL
            SELECT forked_at & ~16777215, forked_at
            FROM segment CROSS JOIN branch ON branch.id = first >> 24
            WHERE forked_at IS NOT NULL
        )
        SELECT 1 FROM segment WHERE node.place BETWEEN first AND last
    ))
ORDER BY created_at_ms, node.id
LIMIT 1;

-- name: read_items
SELECT id, items_crc, input_bytes, items FROM node WHERE place = :place;

-- name: root_of
-- The first place of the tree that a place is in.
WITH RECURSIVE up (place) AS (
    VALUES (:place)
    UNION ALL
    SELECT forked_at FROM up CROSS JOIN branch ON branch.id = place >> 24 WHERE forked_at IS NOT NULL
)
SELECT min(place) & ~16777215 FROM up;

-- name: subtree
-- What is stored of a response and everything below it, in no order: the walk of `is_anything_kept`.
WITH RECURSIVE span (first, last) AS (
    VALUES (:place, :place | 16777215)
    UNION ALL
    SELECT branch.id << 24, branch.id << 24 | 16777215
    FROM span CROSS JOIN branch ON forked_at BETWEEN first AND last
)
SELECT id, parent_id, status, place & 16777215, created_at_ms,
    deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
FROM span CROSS JOIN node ON place BETWEEN first AND last
LIMIT :most;

-- name: children
-- The readable responses right behind a place: the next of its branch, and the first of every branch that forks there.
-- Their own children are counted for those of the page only.
WITH child (place) AS (
    SELECT :place + 1
    UNION ALL
    SELECT branch.id << 24 | (:place & 16777215) + 1 FROM branch WHERE forked_at = :place
),
page AS (
    SELECT id, parent_id, status, node.place AS place, created_at_ms
    FROM child CROSS JOIN node ON node.place = child.place
    WHERE parent_id = :parent_id AND id <> :except_id AND (created_at_ms, id) > (:created_at_ms, :id)
        AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    ORDER BY created_at_ms, id
    LIMIT :most
)
SELECT id, parent_id, status, place & 16777215, created_at_ms, (
    SELECT count(*) FROM node AS next
    WHERE next.place IN (
            SELECT page.place + 1
            UNION ALL
            SELECT branch.id << 24 | (page.place & 16777215) + 1 FROM branch WHERE forked_at = page.place
        )
        AND next.parent_id = page.id
        AND next.deleted = 0 AND (next.expires_at_ms IS NULL OR next.expires_at_ms > :now_ms)
)
FROM page;
