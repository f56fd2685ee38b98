-- One job, in the order in which they were added. Its last two columns say what time alone will do with it, so that
-- claiming and sweeping are look-ups (job_states.py).
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    job_id TEXT NOT NULL,
    queue TEXT NOT NULL,
    max_attempts INTEGER NOT NULL,
    retention_ms INTEGER NOT NULL,
    available_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    holder TEXT NOT NULL, -- empty when nobody holds it
    lease_expires_at_ms INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    settled_attempt INTEGER, -- this and the next two: NULL when no attempt was settled yet
    settled_outcome TEXT,
    settled_reason TEXT,
    ended_as TEXT, -- this and the next two: NULL until the end
    ended_reason TEXT,
    ended_at_ms INTEGER,
    claimable_at_ms INTEGER,
    forgettable_at_ms INTEGER
);
CREATE UNIQUE INDEX job_by_id ON job (tenant, job_id);
CREATE INDEX job_by_queue ON job (tenant, queue, claimable_at_ms, id) WHERE claimable_at_ms IS NOT NULL;
CREATE INDEX job_by_holder ON job (tenant, holder) WHERE holder <> '';
CREATE INDEX job_by_end ON job (tenant, forgettable_at_ms) WHERE forgettable_at_ms IS NOT NULL;

-- What a job is about, apart from the row that every heartbeat writes.
CREATE TABLE job_payload (
    job INTEGER PRIMARY KEY,
    crc INTEGER NOT NULL, -- of the job's id and the payload
    payload BLOB NOT NULL
);
