-- As version 1, under the lock of the tree: whoever deletes a response reads it under that lock alone, and of a deletion
-- and a change that both expect one version, one must lose.
CREATE FUNCTION change_status_v2(
    given_ms bigint, of_tenant text, of_id text, new_status text,
    expected_version bigint, statuses text[], unless_statuses text[], fence_session text, fence_token bigint
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_good boolean := is_fence_good_v1(given_ms, of_tenant, fence_session, fence_token); -- sessions are locked first
    existing node;
    at_ms bigint;
    answer write_outcome_v1;
BEGIN
    PERFORM lock_trees_v1(of_tenant, ARRAY[of_id], false);
    SELECT * INTO existing FROM node WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    at_ms := now_ms_v1(given_ms);
    IF NOT is_readable_v1(existing, at_ms) THEN
        RETURN refused_v1('missing', NULL);
    ELSIF existing.status = new_status
        AND coalesce(expected_version > 0 AND expected_version = existing.version - 1, true)
    THEN
        RETURN stored_v1(existing);
    ELSIF NOT is_good THEN
        RETURN refused_v1('stale_fence', NULL);
    END IF;
    answer := refusal_v1(existing, expected_version, statuses, unless_statuses);
    IF answer IS NULL THEN
        UPDATE node SET status = new_status, version = version + 1, updated_at_ms = at_ms
        WHERE place = existing.place
        RETURNING * INTO existing;
        answer := stored_v1(existing);
    END IF;
    RETURN answer;
END
$$;
