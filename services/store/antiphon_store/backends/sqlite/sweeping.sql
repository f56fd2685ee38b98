-- The statements of retention; see queries.sql.

-- name: expired_leaves
-- Expired responses that nothing continues. Whatever can be reclaimed is one, or an ancestor of one.
SELECT place FROM node
WHERE tenant = :tenant AND expires_at_ms <= :now_ms
    AND NOT EXISTS (SELECT 1 FROM node AS next WHERE next.place = node.place + 1)
    AND NOT EXISTS (SELECT 1 FROM branch WHERE forked_at = node.place)
LIMIT :limit;

-- name: reclaimable_leaf
-- The bytes of a response, if nothing continues it and it is not kept (base.py).
SELECT length(items) + length(body) FROM node
WHERE place = :place
    AND (
        expires_at_ms <= :now_ms
        OR deleted = 1
        AND NOT EXISTS (SELECT 1 FROM session WHERE session.tenant = node.tenant AND head_id = node.id)
    )
    AND NOT EXISTS (SELECT 1 FROM node AS next WHERE next.place = node.place + 1)
    AND NOT EXISTS (SELECT 1 FROM branch WHERE forked_at = node.place);

-- name: expire_hidden
-- Lets a sweep find a response that was deleted and is nobody's head. Nobody can see the difference.
UPDATE node SET expires_at_ms = :now_ms
WHERE place = :place AND deleted = 1 AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
    AND NOT EXISTS (SELECT 1 FROM session WHERE session.tenant = node.tenant AND head_id = node.id);

-- name: drop_leaf
DELETE FROM node WHERE place = :place;

-- name: expired_conversations
SELECT id, length(metadata) FROM conversation
WHERE tenant = :tenant AND expires_at_ms <= :now_ms
LIMIT :limit;

-- name: expired_logs
SELECT id, (SELECT sum(length(frames)) FROM event_batch WHERE log = event_log.id)
FROM event_log
WHERE tenant = :tenant AND expires_at_ms <= :now_ms
LIMIT :limit;

-- name: forgettable_jobs
SELECT id, (SELECT length(payload) FROM job_payload WHERE job_payload.job = job.id)
FROM job
WHERE tenant = :tenant AND forgettable_at_ms <= :now_ms
LIMIT :limit;

-- name: tenants
-- From one tenant to the next in the order of an index, so that it costs as much as there are tenants.
WITH RECURSIVE
of_node (tenant) AS (
    SELECT min(tenant) FROM node WHERE expires_at_ms IS NOT NULL
    UNION ALL
    SELECT (SELECT min(tenant) FROM node WHERE expires_at_ms IS NOT NULL AND tenant > of_node.tenant)
    FROM of_node WHERE tenant IS NOT NULL
),
of_log (tenant) AS (
    SELECT min(tenant) FROM event_log
    UNION ALL
    SELECT (SELECT min(tenant) FROM event_log WHERE tenant > of_log.tenant) FROM of_log WHERE tenant IS NOT NULL
),
of_job (tenant) AS (
    SELECT min(tenant) FROM job
    UNION ALL
    SELECT (SELECT min(tenant) FROM job WHERE tenant > of_job.tenant) FROM of_job WHERE tenant IS NOT NULL
),
of_conversation (tenant) AS (
    SELECT min(tenant) FROM conversation
    UNION ALL
    SELECT (SELECT min(tenant) FROM conversation WHERE tenant > of_conversation.tenant)
    FROM of_conversation WHERE tenant IS NOT NULL
)
SELECT tenant FROM of_node WHERE tenant IS NOT NULL
UNION SELECT tenant FROM of_log WHERE tenant IS NOT NULL
UNION SELECT tenant FROM of_job WHERE tenant IS NOT NULL
UNION SELECT tenant FROM of_conversation WHERE tenant IS NOT NULL
ORDER BY 1;
