-- One job. Its last two columns say what time alone will do with it, so that claiming and forgetting are look-ups
-- (job_states.py). What callers chose freely is bytea, as in node.
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order in which they were added
    tenant text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    max_attempts bigint NOT NULL,
    retention_ms bigint NOT NULL,
    available_at_ms bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    holder bytea NOT NULL DEFAULT '', -- empty when nobody holds it
    lease_expires_at_ms bigint NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    settled_attempt bigint, -- this and the next two: NULL when no attempt was settled yet
    settled_outcome text,
    settled_reason bytea,
    ended_as text, -- this and the next two: NULL until the end
    ended_reason bytea,
    ended_at_ms bigint,
    claimable_at_ms bigint GENERATED ALWAYS AS (
        CASE
            WHEN ended_at_ms IS NOT NULL THEN NULL
            WHEN holder = '' THEN available_at_ms
            WHEN cancel_requested OR attempts >= max_attempts THEN NULL
            ELSE lease_expires_at_ms
        END
    ) STORED,
    forgettable_at_ms bigint GENERATED ALWAYS AS (
        CASE
            WHEN ended_at_ms IS NOT NULL THEN ended_at_ms + retention_ms
            WHEN holder <> '' AND (cancel_requested OR attempts >= max_attempts) THEN lease_expires_at_ms + retention_ms
        END
    ) STORED
);
CREATE UNIQUE INDEX job_by_id ON job (tenant, job_id);
CREATE INDEX job_by_claim ON job (tenant, claimable_at_ms, id) WHERE claimable_at_ms IS NOT NULL;
CREATE INDEX job_by_holder ON job (tenant, holder) WHERE holder <> '';
CREATE INDEX job_by_end ON job (forgettable_at_ms) WHERE forgettable_at_ms IS NOT NULL;

-- What a job is about, apart from the row that every heartbeat writes.
CREATE TABLE job_payload (
    job bigint PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
    crc bigint NOT NULL, -- of the job's id and the payload
    payload bytea NOT NULL
);

-- Whether the lease of a fence lives, now and until the end of the transaction unless time ends it: that of a job, when
-- there is one of this id, or of a session. No fence is always good.
CREATE FUNCTION is_fence_good_v1(given_ms bigint, of_tenant text, fence_session text, fence_token bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held job;
    state session;
    at_ms bigint;
BEGIN
    IF fence_session IS NULL THEN
        RETURN true;
    END IF;
    SELECT * INTO held FROM job WHERE tenant = of_tenant AND job_id = fence_session FOR SHARE;
    at_ms := now_ms_v1(given_ms);
    IF held.id IS NOT NULL AND coalesce(held.forgettable_at_ms > at_ms, true) THEN
        RETURN held.holder <> '' AND held.lease_expires_at_ms > at_ms AND held.attempts = fence_token;
    END IF;
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = fence_session FOR NO KEY UPDATE;
    RETURN is_held_v1(state, fence_token, now_ms_v1(given_ms));
END
$$;
