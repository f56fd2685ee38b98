-- begin_turn_v1 without the items that were taken out of the session's conversation. Finding them means to parse, which
-- is not done here: when there are such items, the last row is 'edited', with the head and their ids, and no lease was
-- taken. The caller takes them out, looks whether the rest is short enough, and asks again with what it has seen; if that
-- is still so, the last row is 'begun' with the ids again, and there are no others.
CREATE FUNCTION begin_turn_v2(
    given_ms bigint, of_tenant text, of_id text, for_holder bytea, ttl_ms bigint, max_depth bigint, max_bytes bigint,
    whole_bytes bigint, seen_head text, seen_removed bigint
) RETURNS TABLE (
    outcome text, head_id text, token bigint, expires_at_ms bigint, removed bytea[],
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session := lock_session_v1(of_tenant, of_id);
    at_ms bigint := now_ms_v1(given_ms);
    taken_out bytea[] := removed_items_v1(of_tenant, of_id);
    is_read boolean := false;
BEGIN
    head_id := state.head_id;
    IF is_held_v1(state, state.last_fence, at_ms) AND state.holder <> for_holder THEN
        outcome := 'locked';
        RETURN NEXT;
        RETURN;
    END IF;
    IF taken_out IS NOT NULL AND seen_removed = cardinality(taken_out) AND seen_head = current_head_v1(state, at_ms) THEN
        removed := taken_out;
    ELSE
        outcome := 'history';
        FOR depth, history_bytes, place, id, items_crc, input_bytes, items IN
            SELECT * FROM history_v1(of_tenant, state.head_id, true, at_ms, max_depth,
                CASE WHEN taken_out IS NULL THEN max_bytes ELSE whole_bytes END)
        LOOP
            IF place IS NULL THEN
                outcome := 'too_long';
                removed := taken_out;
                RETURN NEXT;
                RETURN;
            END IF;
            is_read := true;
            RETURN NEXT;
        END LOOP;
        IF is_read AND taken_out IS NOT NULL THEN
            outcome := 'edited';
            removed := taken_out;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    outcome := 'begun';
    SELECT lease.token, lease.expires_at_ms INTO token, expires_at_ms
    FROM acquire_lease_v1(at_ms, of_tenant, of_id, for_holder, ttl_ms) AS lease;
    RETURN NEXT;
END
$$;

-- begin_turn_v2, or history_v1 behind a response, under a key: idempotency.py says who may run. Beyond the outcomes of a
-- begin: 'replay' with the response that the key is bound to, 'running' with the id of the one that has claimed it (as
-- head_id), 'other_key', and 'missing' for a response that cannot be continued. Only 'begun' claims the key.
CREATE FUNCTION begin_turn_once_v1(
    given_ms bigint, of_tenant text, of_key bytea, of_fingerprint bytea, of_response text, claim_ttl_ms bigint,
    memory_ms bigint, previous_id text, of_session text, for_holder bytea, ttl_ms bigint, max_depth bigint,
    max_bytes bigint, whole_bytes bigint, seen_head text, seen_removed bigint
) RETURNS TABLE (
    outcome text, head_id text, token bigint, expires_at_ms bigint, removed bytea[],
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea,
    bound node
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used idempotency_key := lock_key_v1(of_tenant, of_key);
    at_ms bigint := now_ms_v1(given_ms);
    is_found boolean := false;
    came_to text := 'begun';
BEGIN
    IF is_key_held_v1(used, at_ms) THEN
        IF used.version IS NOT NULL THEN
            SELECT * INTO bound FROM node WHERE tenant = of_tenant AND node.id = used.response_id;
        END IF;
        head_id := used.response_id;
        outcome := CASE
            WHEN used.fingerprint <> '' AND used.fingerprint <> of_fingerprint THEN 'other_key'
            WHEN is_readable_v1(bound, at_ms) THEN 'replay'
            WHEN used.version IS NULL AND used.response_id <> of_response THEN 'running'
        END;
        IF outcome IS NOT NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
        head_id := NULL;
        bound := NULL;
    END IF;
    IF of_session IS NOT NULL THEN
        FOR outcome, head_id, token, expires_at_ms, removed, depth, history_bytes, place, id, items_crc, input_bytes, items
        IN
            SELECT * FROM begin_turn_v2(given_ms, of_tenant, of_session, for_holder, ttl_ms, max_depth, max_bytes,
                whole_bytes, seen_head, seen_removed)
        LOOP
            came_to := outcome;
            RETURN NEXT;
        END LOOP;
    ELSE
        FOR depth, history_bytes, place, id, items_crc, input_bytes, items IN
            SELECT * FROM history_v1(of_tenant, previous_id, false, at_ms, max_depth, max_bytes)
        LOOP
            is_found := true;
            outcome := CASE WHEN place IS NULL THEN 'too_long' ELSE 'history' END;
            came_to := CASE WHEN place IS NULL THEN 'too_long' ELSE 'begun' END;
            EXIT WHEN place IS NULL;
            RETURN NEXT;
        END LOOP;
        IF previous_id IS NOT NULL AND NOT is_found THEN
            came_to := 'missing';
        END IF;
        outcome := came_to;
        RETURN NEXT;
    END IF;
    IF came_to = 'begun' THEN
        PERFORM keep_key_v1(ROW(of_tenant, of_key, of_response, of_fingerprint, at_ms + claim_ttl_ms,
            at_ms + greatest(claim_ttl_ms, memory_ms), NULL, NULL, NULL, NULL, NULL)::idempotency_key, at_ms);
    END IF;
END
$$;
