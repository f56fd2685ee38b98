-- Every statement of the SQLite backend, by name. Tables and columns: migrations/*.sql. A place is
-- branch * 16777216 + depth (places.py), so `place & ~16777215` is the first of its branch.

-- name: find_node
-- Where a response stands, readable or not.
SELECT place, deleted, expires_at_ms FROM node WHERE tenant = :tenant AND id = :id;

-- name: read_node
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body
FROM node
WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms);

-- name: count_in_session
SELECT count(*) FROM (
    SELECT 1 FROM node
    WHERE tenant = :tenant AND session_id = :session_id
        AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    LIMIT :most
);

-- name: insert_node
INSERT INTO node (place, tenant, id, parent_id, session_id, status, version, created_at_ms, updated_at_ms,
    expires_at_ms, items_crc, body_crc, input_bytes, items, body)
VALUES (:place, :tenant, :id, :parent_id, :session_id, :status, :version, :created_at_ms, :updated_at_ms,
    :expires_at_ms, :items_crc, :body_crc, :input_bytes, :items, :body);

-- name: overwrite_node
-- Everything but its place, its parent and its birth.
UPDATE node
SET session_id = :session_id, status = :status, version = :version, updated_at_ms = :updated_at_ms,
    expires_at_ms = :expires_at_ms, items_crc = :items_crc, body_crc = :body_crc, input_bytes = :input_bytes,
    items = :items, body = :body
WHERE tenant = :tenant AND id = :id;

-- name: mark_deleted
UPDATE node SET deleted = 1 WHERE place = :place;

-- name: is_place_taken
SELECT 1 FROM node WHERE place = :place;

-- name: new_branch
INSERT INTO branch (forked_at) VALUES (:forked_at);

-- name: fork_of_branch
SELECT forked_at FROM branch WHERE id = :branch;

-- name: drop_branch
DELETE FROM branch WHERE id = :branch;

-- name: chain
-- A response and its ancestors, in no order; nothing when it may not be seen. The recursion makes one range of places
-- per branch on the way to the root; `tip` is the response's own place, which tells the depth.
WITH RECURSIVE segment (first, last, tip) AS (
    SELECT place & ~16777215, place, place
    FROM node
    WHERE tenant = :tenant AND id = :id AND deleted = 0 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    UNION ALL
    SELECT forked_at & ~16777215, forked_at, tip
    FROM segment CROSS JOIN branch ON branch.id = first >> 24
    WHERE forked_at IS NOT NULL
)
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body, tip
FROM segment CROSS JOIN node ON place BETWEEN first AND last;

-- name: history
-- As `chain`, without what a turn does not need, but with the status of the response itself. With :deleted_too = 1 that
-- may have been deleted.
WITH RECURSIVE segment (first, last, tip_status, tip) AS (
    SELECT place & ~16777215, place, status, place
    FROM node
    WHERE tenant = :tenant AND id = :id AND deleted <= :deleted_too
        AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    UNION ALL
    SELECT forked_at & ~16777215, forked_at, tip_status, tip
    FROM segment CROSS JOIN branch ON branch.id = first >> 24
    WHERE forked_at IS NOT NULL
)
SELECT place, id, items_crc, input_bytes, items, tip_status, tip
FROM segment CROSS JOIN node ON place BETWEEN first AND last;

-- name: is_anything_kept
-- Whether a response or anything below it is kept (base.py). The ranges are the rest of its branch and, again and
-- again, the branches that fork from a range.
WITH RECURSIVE span (first, last) AS (
    VALUES (:place, :place | 16777215)
    UNION ALL
    SELECT branch.id << 24, branch.id << 24 | 16777215
    FROM span CROSS JOIN branch ON forked_at BETWEEN first AND last
)
SELECT 1
FROM span CROSS JOIN node ON place BETWEEN first AND last
WHERE (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    AND (deleted = 0 OR EXISTS (SELECT 1 FROM session WHERE session.tenant = node.tenant AND head_id = node.id))
LIMIT 1;

-- name: drop_nodes
-- A response and everything below it; its branches are still needed to find that, and go afterwards.
WITH RECURSIVE span (first, last) AS (
    VALUES (:place, :place | 16777215)
    UNION ALL
    SELECT branch.id << 24, branch.id << 24 | 16777215
    FROM span CROSS JOIN branch ON forked_at BETWEEN first AND last
)
DELETE FROM node
WHERE place IN (SELECT place FROM span CROSS JOIN node ON place BETWEEN first AND last);

-- name: drop_branches
-- The branches that begin below a response.
WITH RECURSIVE span (first, last) AS (
    VALUES (:place, :place | 16777215)
    UNION ALL
    SELECT branch.id << 24, branch.id << 24 | 16777215
    FROM span CROSS JOIN branch ON forked_at BETWEEN first AND last
)
DELETE FROM branch WHERE id IN (SELECT first >> 24 FROM span WHERE first > :place);

-- name: read_session
SELECT head_id, last_fence, holder, lease_expires_at_ms FROM session WHERE tenant = :tenant AND id = :id;

-- name: read_session_with_head
-- `head_id` is NULL when a turn in the session would not continue it: its time is over.
SELECT node.id, last_fence, holder, lease_expires_at_ms
FROM session
LEFT JOIN node ON node.tenant = session.tenant AND node.id = head_id
    AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
WHERE session.tenant = :tenant AND session.id = :id;

-- name: write_session
INSERT INTO session (tenant, id, head_id, last_fence, holder, lease_expires_at_ms)
VALUES (:tenant, :id, :head_id, :last_fence, :holder, :lease_expires_at_ms)
ON CONFLICT (tenant, id) DO UPDATE SET head_id = excluded.head_id, last_fence = excluded.last_fence,
    holder = excluded.holder, lease_expires_at_ms = excluded.lease_expires_at_ms;
