-- Functions end in their version and are never changed once released: a change is a new version beside the old one, so
-- that replicas of two releases can share a database during an upgrade.

-- The server's clock now, not that of the transaction's begin: who waited for a lock has to look again. Tests name
-- another moment.
CREATE FUNCTION now_ms_v1(given_ms bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given_ms, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
$$;

-- Until the end of the transaction: nothing is taken out of these responses' trees (shared), or nobody else writes
-- there (exclusive). All responses of a tree share the 16 digits behind 'resp_'. Always in the same order, so that two
-- writers never wait for each other.
CREATE FUNCTION lock_trees_v1(tenant text, ids text[], exclusive boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    tree bigint;
BEGIN
    FOR tree IN
        SELECT DISTINCT hashtextextended(lock_trees_v1.tenant || ' ' || substr(each, 6, 16), 0) AS key
        FROM unnest(ids) AS each WHERE each IS NOT NULL ORDER BY key
    LOOP
        IF exclusive THEN
            PERFORM pg_advisory_xact_lock(tree);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(tree);
        END IF;
    END LOOP;
END
$$;

-- Whether the lease of that token lives; a session that was never used is NULL.
CREATE FUNCTION is_held_v1(state session, token bigint, at_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(state.holder <> '' AND state.lease_expires_at_ms > at_ms AND state.last_fence = token, false);
$$;
