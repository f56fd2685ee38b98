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

-- name: drop_leaf
DELETE FROM node WHERE place = :place;

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
