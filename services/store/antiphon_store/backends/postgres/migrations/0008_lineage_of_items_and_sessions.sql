-- The responses of a session, in the order of List.
CREATE INDEX node_by_session ON node (tenant, session_id, created_at_ms, (place & 16777215), id)
WHERE session_id IS NOT NULL;

-- The responses that an item is in. Item ids may be of any length and content: their SHA-256 is what is found.
CREATE TABLE item (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    place bigint NOT NULL, -- of the response
    PRIMARY KEY (tenant, digest, place)
);
CREATE INDEX item_by_place ON item (place);
CREATE FUNCTION item_goes_with_node_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM item WHERE place = OLD.place;
    RETURN NULL;
END
$$;
CREATE TRIGGER item_goes_with_node AFTER DELETE ON node FOR EACH ROW EXECUTE FUNCTION item_goes_with_node_v1();

-- The forks that were made, so that one that is asked for again gets the same answer. '' stands for what was not named.
CREATE TABLE fork (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    source_session_id text COLLATE "C" NOT NULL,
    source_response_id text COLLATE "C" NOT NULL,
    head_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, session_id)
);

-- write_v1 with the items by which the response can be found.
CREATE FUNCTION write_with_items_v1(
    given_ms bigint, of_tenant text, of_id text, of_parent text, of_session text, new_status text,
    new_items_crc bigint, new_body_crc bigint, new_input_bytes bigint, new_items bytea, new_body bytea, ttl_ms bigint,
    expected_version bigint, statuses text[], unless_statuses text[],
    fence_session text, fence_token bigint, ends_turn boolean, exclusive boolean, digests bytea[]
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    answer write_outcome_v1;
BEGIN
    answer := write_v1(given_ms, of_tenant, of_id, of_parent, of_session, new_status, new_items_crc, new_body_crc,
        new_input_bytes, new_items, new_body, ttl_ms, expected_version, statuses, unless_statuses, fence_session,
        fence_token, ends_turn, exclusive);
    IF answer.outcome = 'stored' THEN
        DELETE FROM item WHERE place = answer.place AND digest <> ALL (digests);
        INSERT INTO item (tenant, digest, place) SELECT of_tenant, each, answer.place FROM unnest(digests) AS each
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN answer;
END
$$;

-- Another status, in one step with its conditions; the rules are those of status.py.
CREATE FUNCTION change_status_v1(
    given_ms bigint, of_tenant text, of_id text, new_status text,
    expected_version bigint, statuses text[], unless_statuses text[], fence_session text, fence_token bigint
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_good boolean := is_fence_good_v1(given_ms, of_tenant, fence_session, fence_token); -- sessions are locked first
    existing node;
    at_ms bigint;
    answer write_outcome_v1;
BEGIN
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

-- A session that begins where another one is, or at a response; the rules are those of forking.py. `head_id` is where it
-- begins; new_tag is the tree that the new session's id is bound to, if any.
CREATE FUNCTION fork_v1(
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
    PERFORM FROM session WHERE tenant = of_tenant AND id IN (source_session, new_session)
    ORDER BY id FOR NO KEY UPDATE;
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
        UPDATE session SET head_id = fork_v1.head_id WHERE tenant = of_tenant AND id = new_session;
        INSERT INTO fork (tenant, session_id, source_session_id, source_response_id, head_id)
        VALUES (of_tenant, new_session, coalesce(source_session, ''), coalesce(source_response, ''), fork_v1.head_id)
        ON CONFLICT (tenant, session_id) DO UPDATE SET source_session_id = excluded.source_session_id,
            source_response_id = excluded.source_response_id, head_id = excluded.head_id;
    END IF;
    RETURN NEXT;
END
$$;
