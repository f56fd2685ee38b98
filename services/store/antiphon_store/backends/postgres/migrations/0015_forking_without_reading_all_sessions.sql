-- fork_v1 with its sessions locked one at a time (hold_sessions_v1); the rules are those of forking.py. `head_id` is where it
-- begins; new_tag is the tree that the new session's id is bound to, if any.
CREATE FUNCTION fork_v2(
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
        UPDATE session SET head_id = fork_v2.head_id WHERE tenant = of_tenant AND id = new_session;
        INSERT INTO fork (tenant, session_id, source_session_id, source_response_id, head_id)
        VALUES (of_tenant, new_session, coalesce(source_session, ''), coalesce(source_response, ''), fork_v2.head_id)
        ON CONFLICT (tenant, session_id) DO UPDATE SET source_session_id = excluded.source_session_id,
            source_response_id = excluded.source_response_id, head_id = excluded.head_id;
    END IF;
    RETURN NEXT;
END
$$;
