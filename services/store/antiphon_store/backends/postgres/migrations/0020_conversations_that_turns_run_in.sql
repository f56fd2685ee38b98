-- 'removed', or why not: 'missing', 'locked' (a turn runs in it).
CREATE FUNCTION remove_conversation_v2(given_ms bigint, of_tenant text, of_id text)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
    existing conversation;
    at_ms bigint;
BEGIN
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    IF NOT is_living_v1(existing, now_ms_v1(given_ms)) THEN
        RETURN 'missing';
    END IF;
    PERFORM lock_trees_v1(of_tenant, ARRAY[state.head_id], true);
    at_ms := now_ms_v1(given_ms);
    IF is_held_v1(state, state.last_fence, at_ms) THEN
        RETURN 'locked';
    END IF;
    PERFORM end_conversation_v1(state, at_ms);
    RETURN 'removed';
END
$$;
