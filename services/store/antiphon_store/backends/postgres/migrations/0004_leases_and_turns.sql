-- A session's row, locked; made first when it was never used.
CREATE FUNCTION lock_session_v1(of_tenant text, of_id text) RETURNS session LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
BEGIN
    LOOP
        SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
        IF FOUND THEN
            RETURN state;
        END IF;
        INSERT INTO session (tenant, id) VALUES (of_tenant, of_id) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- The next token, or the holder's own with a later end; no row when somebody else holds the session.
CREATE FUNCTION acquire_lease_v1(given_ms bigint, of_tenant text, of_id text, for_holder bytea, ttl_ms bigint)
RETURNS TABLE (token bigint, expires_at_ms bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session := lock_session_v1(of_tenant, of_id);
    at_ms bigint := now_ms_v1(given_ms);
BEGIN
    IF NOT is_held_v1(state, state.last_fence, at_ms) THEN
        token := state.last_fence + 1;
        expires_at_ms := at_ms + ttl_ms;
    ELSIF state.holder = for_holder THEN
        token := state.last_fence;
        expires_at_ms := greatest(state.lease_expires_at_ms, at_ms + ttl_ms);
    ELSE
        RETURN;
    END IF;
    UPDATE session SET last_fence = token, holder = for_holder, lease_expires_at_ms = acquire_lease_v1.expires_at_ms
    WHERE tenant = of_tenant AND id = of_id;
    RETURN NEXT;
END
$$;

-- The lease and the history of a turn: rows of history_v1 as 'history', and last the lease as 'begun'. Refused, and no
-- lease taken: one row, 'locked' or 'too_long'.
CREATE FUNCTION begin_turn_v1(
    given_ms bigint, of_tenant text, of_id text, for_holder bytea, ttl_ms bigint, max_depth bigint, max_bytes bigint
) RETURNS TABLE (
    outcome text, head_id text, token bigint, expires_at_ms bigint,
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session := lock_session_v1(of_tenant, of_id);
    at_ms bigint := now_ms_v1(given_ms);
BEGIN
    head_id := state.head_id;
    IF is_held_v1(state, state.last_fence, at_ms) AND state.holder <> for_holder THEN
        outcome := 'locked';
        RETURN NEXT;
        RETURN;
    END IF;
    outcome := 'history';
    FOR depth, history_bytes, place, id, items_crc, input_bytes, items IN
        SELECT * FROM history_v1(of_tenant, state.head_id, true, at_ms, max_depth, max_bytes)
    LOOP
        IF place IS NULL THEN
            outcome := 'too_long';
            RETURN NEXT;
            RETURN;
        END IF;
        RETURN NEXT;
    END LOOP;
    outcome := 'begun';
    SELECT lease.token, lease.expires_at_ms INTO token, expires_at_ms
    FROM acquire_lease_v1(at_ms, of_tenant, of_id, for_holder, ttl_ms) AS lease;
    RETURN NEXT;
END
$$;
