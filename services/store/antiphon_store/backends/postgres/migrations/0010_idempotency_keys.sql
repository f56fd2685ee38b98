-- An idempotency key and the response that it belongs to: backends/idempotency.py. Keys and fingerprints are what callers
-- chose freely, hence bytea.
CREATE TABLE idempotency_key (
    tenant text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    response_id text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL, -- empty when the key was bound without BeginTurn
    claimed_until_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    version bigint, -- NULL while the response runs; then these five are the stamp of its first write under the key
    place bigint, -- of which the depth counts
    created_at_ms bigint,
    updated_at_ms bigint,
    record_expires_at_ms bigint,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_key_by_end ON idempotency_key (expires_at_ms);

-- What is stored of a key, expired or not; nobody else decides about it until the end of the transaction, whether or not
-- it is there. Of all locks it is taken first.
CREATE FUNCTION lock_key_v1(of_tenant text, of_key bytea) RETURNS idempotency_key LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used idempotency_key;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('key ' || of_tenant || ' ' || encode(of_key, 'hex'), 0));
    SELECT * INTO used FROM idempotency_key WHERE tenant = of_tenant AND key = of_key;
    RETURN used;
END
$$;

-- Whether somebody else is kept out: it is bound, or its claim lives.
CREATE FUNCTION is_key_held_v1(used idempotency_key, at_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(at_ms < CASE WHEN used.version IS NULL THEN used.claimed_until_ms ELSE used.expires_at_ms END, false);
$$;

-- Remembers a key, and lets go of a few whose time is over, so that they never pile up. Its own row first: of two who do
-- this at once, neither waits for a row that the other is about to drop.
CREATE FUNCTION keep_key_v1(use idempotency_key, at_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    old idempotency_key;
BEGIN
    INSERT INTO idempotency_key AS kept (tenant, key, response_id, fingerprint, claimed_until_ms, expires_at_ms, version,
        place, created_at_ms, updated_at_ms, record_expires_at_ms)
    VALUES (use.tenant, use.key, use.response_id, use.fingerprint, use.claimed_until_ms, use.expires_at_ms, use.version,
        use.place, use.created_at_ms, use.updated_at_ms, use.record_expires_at_ms)
    ON CONFLICT (tenant, key) DO UPDATE SET response_id = excluded.response_id, fingerprint = excluded.fingerprint,
        claimed_until_ms = excluded.claimed_until_ms, expires_at_ms = excluded.expires_at_ms,
        version = excluded.version, place = excluded.place, created_at_ms = excluded.created_at_ms,
        updated_at_ms = excluded.updated_at_ms, record_expires_at_ms = excluded.record_expires_at_ms;
    FOR old IN
        SELECT * FROM idempotency_key WHERE expires_at_ms <= at_ms ORDER BY expires_at_ms LIMIT 2 FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM idempotency_key WHERE tenant = old.tenant AND key = old.key;
    END LOOP;
END
$$;
