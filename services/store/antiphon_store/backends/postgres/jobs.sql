-- The statements of jobs; see queries.sql.

-- name: insert_job
-- No row: the id is taken.
WITH fresh AS (
    INSERT INTO job (tenant, job_id, queue, max_attempts, retention_ms, available_at_ms)
    VALUES (%(tenant)s, %(job_id)s, %(queue)s, %(max_attempts)s, %(retention_ms)s,
        now_ms_v1(%(now_ms)s) + %(run_after_ms)s)
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO job_payload (job, crc, payload) SELECT id, %(crc)s, %(payload)s FROM fresh RETURNING job;

-- name: lock_job
-- The time, the job's row and the job as it is stored, whatever time has done with it since.
SELECT now_ms_v1(%(now_ms)s), id, job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder,
    lease_expires_at_ms, cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason,
    ended_at_ms
FROM job
WHERE tenant = %(tenant)s AND job_id = %(job_id)s
FOR UPDATE;

-- name: read_job
SELECT now_ms_v1(%(now_ms)s), id, job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder,
    lease_expires_at_ms, cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason,
    ended_at_ms
FROM job
WHERE tenant = %(tenant)s AND job_id = %(job_id)s;

-- name: update_job
UPDATE job
SET available_at_ms = %(available_at_ms)s, attempts = %(attempts)s, holder = %(holder)s,
    lease_expires_at_ms = %(lease_expires_at_ms)s, cancel_requested = %(cancel_requested)s,
    settled_attempt = %(settled_attempt)s, settled_outcome = %(settled_outcome)s, settled_reason = %(settled_reason)s,
    ended_as = %(ended_as)s, ended_reason = %(ended_reason)s, ended_at_ms = %(ended_at_ms)s
WHERE id = %(job)s
RETURNING id;

-- name: read_payload
SELECT crc, payload FROM job_payload WHERE job = %(job)s;

-- name: drop_job
DELETE FROM job WHERE id = %(job)s RETURNING id;

-- name: claim_job
-- The job of these queues that the holder has, else the one that has been claimable for longest and that nobody else is
-- taking at this moment. Time gave it back when its last holder's lease ended.
WITH moment AS MATERIALIZED (
    SELECT now_ms_v1(%(now_ms)s) AS ms
), mine AS MATERIALIZED (
    SELECT id FROM job CROSS JOIN moment
    WHERE tenant = %(tenant)s AND holder = %(holder)s AND holder <> '' AND queue = ANY (%(queues)s)
        AND lease_expires_at_ms > ms
    ORDER BY available_at_ms, id
    LIMIT 1
    FOR UPDATE OF job
), oldest AS MATERIALIZED (
    SELECT id FROM job CROSS JOIN moment
    WHERE NOT EXISTS (SELECT FROM mine) AND tenant = %(tenant)s AND queue = ANY (%(queues)s) AND claimable_at_ms <= ms
    ORDER BY claimable_at_ms, id
    LIMIT 1
    FOR UPDATE OF job SKIP LOCKED
), taken AS (
    UPDATE job
    SET attempts = CASE WHEN holder <> '' AND lease_expires_at_ms > ms THEN attempts ELSE attempts + 1 END,
        available_at_ms = CASE WHEN holder <> '' AND lease_expires_at_ms <= ms THEN lease_expires_at_ms
            ELSE available_at_ms END,
        lease_expires_at_ms = greatest(lease_expires_at_ms, ms + %(lease_ttl_ms)s),
        holder = %(holder)s
    FROM moment, (SELECT id FROM mine UNION ALL SELECT id FROM oldest) AS chosen
    WHERE job.id = chosen.id
    RETURNING job.*
)
SELECT taken.id, job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder, lease_expires_at_ms,
    cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason, ended_at_ms, crc, payload
FROM taken JOIN job_payload ON job = taken.id;
