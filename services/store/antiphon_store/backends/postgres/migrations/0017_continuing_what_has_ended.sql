-- Whether a response may still say something: it can be read, but not be continued.
CREATE FUNCTION is_unfinished_v1(status text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT status IN ('queued', 'in_progress');
$$;

-- What a turn behind a response continues: rows of history_v1, and the response's status if it has not ended. Then there
-- is one row without a place, as when the history is over the limits; and no row when the response cannot be read.
CREATE FUNCTION continued_v1(of_tenant text, of_id text, at_ms bigint, max_depth bigint, max_bytes bigint)
RETURNS TABLE (
    unfinished text,
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea
) LANGUAGE sql STABLE AS $$
    SELECT asked.unfinished, history.*
    FROM (
        SELECT CASE WHEN is_unfinished_v1(node.status) THEN node.status END AS unfinished
        FROM node
        WHERE node.tenant = of_tenant AND node.id = of_id
    ) AS asked
    CROSS JOIN LATERAL history_v1(
        of_tenant, of_id, false, at_ms, CASE WHEN asked.unfinished IS NULL THEN max_depth ELSE 0 END, max_bytes
    ) AS history;
$$;

-- begin_turn_once_v1 that continues only what has ended: otherwise the outcome is the status of the response.
CREATE FUNCTION begin_turn_once_v2(
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
    unfinished text;
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
        FOR unfinished, depth, history_bytes, place, id, items_crc, input_bytes, items IN
            SELECT * FROM continued_v1(of_tenant, previous_id, at_ms, max_depth, max_bytes)
        LOOP
            is_found := true;
            outcome := 'history';
            came_to := CASE WHEN place IS NULL THEN coalesce(unfinished, 'too_long') ELSE 'begun' END;
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

-- fork_v2 that begins only from a response that has ended: otherwise the outcome is its status.
CREATE FUNCTION fork_v3(
    given_ms bigint, of_tenant text, source_session text, source_response text, new_session text, new_tag text
) RETURNS TABLE (outcome text, head_id text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    state session;
    source session;
    response node;
    source_head text;
    current_head text;
    at_ms bigint;
BEGIN
    INSERT INTO session (tenant, id) VALUES (of_tenant, new_session) ON CONFLICT DO NOTHING;
    PERFORM hold_sessions_v1(of_tenant, source_session, new_session);
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = new_session;
    SELECT * INTO source FROM session WHERE tenant = of_tenant AND id = source_session;
    PERFORM lock_trees_v1(of_tenant, ARRAY[source_response, source.head_id, state.head_id], false);
    at_ms := now_ms_v1(given_ms);
    outcome := 'made';
    SELECT fork.head_id INTO head_id FROM fork
    WHERE tenant = of_tenant AND session_id = new_session AND source_session_id = coalesce(source_session, '')
        AND source_response_id = coalesce(source_response, '');
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT id INTO source_head FROM node
    WHERE tenant = of_tenant AND id = source.head_id AND coalesce(expires_at_ms > at_ms, true);
    SELECT id INTO current_head FROM node
    WHERE tenant = of_tenant AND id = state.head_id AND coalesce(expires_at_ms > at_ms, true);
    SELECT * INTO response FROM node WHERE tenant = of_tenant AND id = source_response;
    head_id := coalesce(source_response, source_head);
    IF head_id IS NULL THEN
        outcome := 'nothing';
    ELSIF source_response IS NOT NULL AND NOT is_readable_v1(response, at_ms) THEN
        outcome := 'missing';
    ELSIF is_unfinished_v1(response.status) THEN
        outcome := response.status;
    ELSIF source_session IS NOT NULL AND source_session IS DISTINCT FROM response.session_id
        AND source_head IS DISTINCT FROM head_id
    THEN
        outcome := 'elsewhere';
    ELSIF new_tag <> substr(head_id, 6, 16) THEN
        outcome := 'other_tree';
    ELSIF current_head = head_id THEN
        outcome := 'made';
    ELSIF current_head IS NOT NULL THEN
        outcome := 'exists';
    ELSIF is_held_v1(state, state.last_fence, at_ms) THEN
        outcome := 'locked';
    ELSE
        UPDATE session SET head_id = fork_v3.head_id WHERE tenant = of_tenant AND id = new_session;
        INSERT INTO fork (tenant, session_id, source_session_id, source_response_id, head_id)
        VALUES (of_tenant, new_session, coalesce(source_session, ''), coalesce(source_response, ''), fork_v3.head_id)
        ON CONFLICT (tenant, session_id) DO UPDATE SET source_session_id = excluded.source_session_id,
            source_response_id = excluded.source_response_id, head_id = excluded.head_id;
    END IF;
    RETURN NEXT;
END
$$;
