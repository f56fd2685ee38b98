-- A session with metadata, under the session's id. origin and incarnation: backends/conversations.py. Whoever changes more
-- than the metadata holds the session's row.
CREATE TABLE conversation (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    metadata bytea NOT NULL,
    version bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    origin text COLLATE "C" NOT NULL,
    incarnation text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX conversation_by_end ON conversation (tenant, expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- An item that was taken out of a conversation's context; the nodes that hold it stay as they are. Its id may be of any
-- length and content: the SHA-256 of it is the key.
CREATE TABLE removed_item (
    tenant text COLLATE "C" NOT NULL,
    conversation_id text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    item_id bytea NOT NULL,
    PRIMARY KEY (tenant, conversation_id, digest)
);

CREATE FUNCTION is_living_v1(existing conversation, at_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT existing.id IS NOT NULL AND (existing.expires_at_ms IS NULL OR existing.expires_at_ms > at_ms);
$$;

-- The head of a session that a turn would continue: deleted or not, until its time is over.
CREATE FUNCTION current_head_v1(state session, at_ms bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    head_id text;
BEGIN
    SELECT id INTO head_id FROM node
    WHERE tenant = state.tenant AND id = state.head_id AND (expires_at_ms IS NULL OR expires_at_ms > at_ms);
    RETURN head_id;
END
$$;

-- The ids of the items that were taken out of a conversation; NULL when none was.
CREATE FUNCTION removed_items_v1(of_tenant text, of_id text) RETURNS bytea[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT array_agg(item_id) FROM removed_item WHERE tenant = of_tenant AND conversation_id = of_id);
END
$$;

-- A node behind the head of a locked session that is deleted from the start, and the session's new head. The lease stays
-- as it is. The former head stays too, since this one continues it; the caller shares the trees of both. 'exists': of
-- this id there is a node.
CREATE FUNCTION append_hidden_v1(state session, draft draft_v1, expires_at_ms bigint, at_ms bigint)
RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    fresh node := node_of_v1(state.tenant, draft, append_hidden_v1.expires_at_ms);
    answer write_outcome_v1;
BEGIN
    fresh.parent_id := current_head_v1(state, at_ms);
    WHILE answer.outcome IS NULL LOOP
        IF EXISTS (SELECT FROM node WHERE tenant = state.tenant AND id = draft.id) THEN
            RETURN refused_v1('exists', NULL);
        END IF;
        answer := insert_v1(fresh, NULL, fresh.parent_id, at_ms, false);
    END LOOP;
    IF answer.outcome = 'stored' THEN
        UPDATE node SET deleted = true WHERE place = answer.place;
        UPDATE session SET head_id = draft.id WHERE tenant = state.tenant AND id = state.id;
    END IF;
    RETURN answer;
END
$$;

-- Conversation, marks, lease and head of a locked session; lets go of what the head kept. The caller has the lock of the
-- head's tree for itself.
CREATE FUNCTION end_conversation_v1(state session, at_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM removed_item WHERE tenant = state.tenant AND conversation_id = state.id;
    DELETE FROM conversation WHERE tenant = state.tenant AND id = state.id;
    PERFORM move_head_v1(state, NULL, at_ms);
END
$$;

-- 'made', or 'found' when this very founding made it before. 'exists': another one did. 'locked': somebody has the
-- session, so its first items cannot be added.
CREATE FUNCTION create_conversation_v1(
    given_ms bigint, of_tenant text, of_id text, new_metadata bytea, new_origin text, new_incarnation text,
    ttl_ms bigint, first draft_v1
) RETURNS TABLE (outcome text, metadata bytea, version bigint, created_at_ms bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    state session := lock_session_v1(of_tenant, of_id);
    at_ms bigint := now_ms_v1(given_ms);
    existing conversation;
    first_node write_outcome_v1;
BEGIN
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    IF is_living_v1(existing, at_ms) THEN
        outcome := CASE WHEN existing.origin = new_origin THEN 'found' ELSE 'exists' END;
        metadata := existing.metadata;
        version := existing.version;
        created_at_ms := existing.created_at_ms;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM lock_trees_v1(of_tenant, ARRAY[first.id, state.head_id], existing.id IS NOT NULL);
    IF existing.id IS NOT NULL THEN
        PERFORM end_conversation_v1(state, at_ms);
        SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id;
    END IF;
    outcome := 'made';
    IF first.id IS NOT NULL AND is_held_v1(state, state.last_fence, at_ms) THEN
        outcome := 'locked';
    ELSIF first.id IS NOT NULL THEN
        first_node := append_hidden_v1(state, first, at_ms + ttl_ms, at_ms);
        IF first_node.outcome <> 'stored' THEN
            outcome := first_node.outcome;
        END IF;
    END IF;
    IF outcome = 'made' THEN
        INSERT INTO conversation AS made
            (tenant, id, metadata, version, created_at_ms, expires_at_ms, origin, incarnation)
        VALUES (of_tenant, of_id, new_metadata, 1, at_ms, at_ms + ttl_ms, new_origin, new_incarnation)
        RETURNING made.metadata, made.version, made.created_at_ms INTO metadata, version, created_at_ms;
    END IF;
    RETURN NEXT;
END
$$;

-- Other metadata, unless that was done already; the rules are those of conversations.revised. 'other_version': the
-- version is the one that it has. No row: there is no such conversation.
CREATE FUNCTION update_conversation_v1(
    given_ms bigint, of_tenant text, of_id text, new_metadata bytea, expected_version bigint
) RETURNS TABLE (outcome text, metadata bytea, version bigint, created_at_ms bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    existing conversation;
    is_done boolean;
BEGIN
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    IF NOT is_living_v1(existing, now_ms_v1(given_ms)) THEN
        RETURN;
    END IF;
    is_done := existing.metadata = new_metadata
        AND coalesce(expected_version IN (existing.version, existing.version - 1), true);
    outcome := 'stored';
    IF NOT is_done AND expected_version <> existing.version THEN
        outcome := 'other_version';
    ELSIF NOT is_done THEN
        UPDATE conversation SET metadata = new_metadata, version = conversation.version + 1
        WHERE tenant = of_tenant AND id = of_id
        RETURNING * INTO existing;
    END IF;
    metadata := existing.metadata;
    version := existing.version;
    created_at_ms := existing.created_at_ms;
    RETURN NEXT;
END
$$;

-- False: there is no such conversation.
CREATE FUNCTION remove_conversation_v1(given_ms bigint, of_tenant text, of_id text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
    existing conversation;
    at_ms bigint;
BEGIN
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    IF NOT is_living_v1(existing, now_ms_v1(given_ms)) THEN
        RETURN false;
    END IF;
    PERFORM lock_trees_v1(of_tenant, ARRAY[state.head_id], true);
    at_ms := now_ms_v1(given_ms);
    PERFORM end_conversation_v1(state, at_ms);
    RETURN true;
END
$$;

-- 'stored', or why not: 'missing' (the conversation, in this incarnation), 'stale_fence', 'locked', 'too_deep'. 'known':
-- the node of this addition is there, and is `stored`. The node's checksums begin with its id, and that depends on the
-- incarnation: the caller has read it before, and here it has to be the same still.
CREATE FUNCTION add_items_v1(
    given_ms bigint, of_tenant text, of_id text, of_incarnation text, draft draft_v1, fence_token bigint
) RETURNS TABLE (outcome text, stored node) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
    existing conversation;
    at_ms bigint;
    answer write_outcome_v1;
BEGIN
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    PERFORM lock_trees_v1(of_tenant, ARRAY[draft.id, state.head_id], false);
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    at_ms := now_ms_v1(given_ms);
    SELECT * INTO stored FROM node WHERE tenant = of_tenant AND id = draft.id;
    outcome := CASE
        WHEN NOT is_living_v1(existing, at_ms) OR existing.incarnation <> of_incarnation THEN 'missing'
        WHEN stored.place IS NOT NULL THEN 'known'
        WHEN fence_token IS NOT NULL AND NOT is_held_v1(state, fence_token, at_ms) THEN 'stale_fence'
        WHEN fence_token IS NULL AND is_held_v1(state, state.last_fence, at_ms) THEN 'locked'
    END;
    IF outcome IS NULL THEN
        answer := append_hidden_v1(state, draft, existing.expires_at_ms, at_ms);
        outcome := answer.outcome;
    END IF;
    RETURN NEXT;
END
$$;

-- What a turn in a conversation would continue, as of one moment: rows of history_v1 as 'history', and last, as 'whole',
-- the conversation, its head and the items that were taken out. Over the limits: the last row only, as 'too_long'. No
-- row: there is no such conversation.
CREATE FUNCTION context_v1(given_ms bigint, of_tenant text, of_id text, max_depth bigint, max_bytes bigint)
RETURNS TABLE (
    outcome text, head_id text, removed bytea[], metadata bytea, version bigint, created_at_ms bigint,
    depth bigint, history_bytes bigint, place bigint, id text, items_crc bigint, input_bytes bigint, items bytea
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    at_ms bigint := now_ms_v1(given_ms);
    existing conversation;
    state session;
BEGIN
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    IF NOT is_living_v1(existing, at_ms) THEN
        RETURN;
    END IF;
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id;
    outcome := 'history';
    FOR depth, history_bytes, place, id, items_crc, input_bytes, items IN
        SELECT * FROM history_v1(of_tenant, state.head_id, true, at_ms, max_depth, max_bytes)
    LOOP
        IF place IS NULL THEN
            outcome := 'too_long';
            head_id := state.head_id;
            RETURN NEXT;
            RETURN;
        END IF;
        RETURN NEXT;
    END LOOP;
    outcome := 'whole';
    head_id := state.head_id;
    removed := removed_items_v1(of_tenant, of_id);
    metadata := existing.metadata;
    version := existing.version;
    created_at_ms := existing.created_at_ms;
    RETURN NEXT;
END
$$;

-- Marks an item as taken out of the conversation whose context was read with this head. False: it has gone on since, and
-- has to be read again.
CREATE FUNCTION remove_item_v1(
    given_ms bigint, of_tenant text, of_id text, seen_head text, of_digest bytea, of_item bytea
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
    existing conversation;
BEGIN
    SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
    SELECT * INTO existing FROM conversation WHERE tenant = of_tenant AND id = of_id;
    IF NOT is_living_v1(existing, now_ms_v1(given_ms)) OR state.head_id IS DISTINCT FROM seen_head THEN
        RETURN false;
    END IF;
    INSERT INTO removed_item (tenant, conversation_id, digest, item_id) VALUES (of_tenant, of_id, of_digest, of_item)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;
