-- The statements of jobs; see queries.sql.

-- name: read_job
SELECT id, job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder, lease_expires_at_ms,
    cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason, ended_at_ms
FROM job
WHERE tenant = :tenant AND job_id = :job_id;

-- name: insert_job
INSERT INTO job (tenant, job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder,
    lease_expires_at_ms, cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason,
    ended_at_ms, claimable_at_ms, forgettable_at_ms)
VALUES (:tenant, :job_id, :queue, :max_attempts, :retention_ms, :available_at_ms, :attempts, :holder,
    :lease_expires_at_ms, :cancel_requested, :settled_attempt, :settled_outcome, :settled_reason, :ended_as,
    :ended_reason, :ended_at_ms, :claimable_at_ms, :forgettable_at_ms);

-- name: update_job
UPDATE job
SET available_at_ms = :available_at_ms, attempts = :attempts, holder = :holder,
    lease_expires_at_ms = :lease_expires_at_ms, cancel_requested = :cancel_requested,
    settled_attempt = :settled_attempt, settled_outcome = :settled_outcome, settled_reason = :settled_reason,
    ended_as = :ended_as, ended_reason = :ended_reason, ended_at_ms = :ended_at_ms,
    claimable_at_ms = :claimable_at_ms, forgettable_at_ms = :forgettable_at_ms
WHERE id = :job;

-- name: held_job
-- The job of a queue that a holder has.
SELECT available_at_ms, id, job_id FROM job
WHERE tenant = :tenant AND holder = :holder AND holder <> '' AND queue = :queue AND lease_expires_at_ms > :now_ms
ORDER BY available_at_ms, id
LIMIT 1;

-- name: claimable_job
-- The job of a queue that has been claimable for longest.
SELECT claimable_at_ms, id, job_id FROM job
WHERE tenant = :tenant AND queue = :queue AND claimable_at_ms <= :now_ms
ORDER BY claimable_at_ms, id
LIMIT 1;

-- name: insert_payload
INSERT INTO job_payload (job, crc, payload) VALUES (:job, :crc, :payload);

-- name: read_payload
SELECT crc, payload FROM job_payload WHERE job = :job;

-- name: drop_payload
DELETE FROM job_payload WHERE job = :job;

-- name: drop_job
DELETE FROM job WHERE id = :job;
