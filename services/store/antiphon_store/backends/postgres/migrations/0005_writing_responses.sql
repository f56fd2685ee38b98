-- What a write came to. `actual` is the fact of a refusal; what follows is the stamp of what is stored now.
CREATE TYPE write_outcome_v1 AS (
    outcome text, actual text, version bigint, place bigint, created_at_ms bigint, updated_at_ms bigint,
    expires_at_ms bigint
);

CREATE FUNCTION is_readable_v1(response node, at_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT response.place IS NOT NULL AND NOT response.deleted
        AND (response.expires_at_ms IS NULL OR response.expires_at_ms > at_ms);
$$;

CREATE FUNCTION refused_v1(outcome text, actual text) RETURNS write_outcome_v1 LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(outcome, actual, NULL, NULL, NULL, NULL, NULL)::write_outcome_v1;
$$;

CREATE FUNCTION stored_v1(response node) RETURNS write_outcome_v1 LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW('stored', NULL, response.version, response.place, response.created_at_ms, response.updated_at_ms,
        response.expires_at_ms)::write_outcome_v1;
$$;

-- Why a readable response may not be changed under these conditions; NULL when it may.
CREATE FUNCTION refusal_v1(existing node, expected_version bigint, statuses text[], unless_statuses text[])
RETURNS write_outcome_v1 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN expected_version <> existing.version THEN refused_v1('other_version', existing.version::text)
        WHEN cardinality(statuses) > 0 AND existing.status <> ALL (statuses)
            THEN refused_v1('other_status', existing.status)
        WHEN existing.status = ANY (unless_statuses) THEN refused_v1('other_status', existing.status)
    END;
$$;

-- Puts a response into its tree. NULL: another writer was faster with its id or its place, look again. `existing` is
-- the unreadable one of that id, if any; `head_id` may be continued although it was deleted.
CREATE FUNCTION insert_v1(fresh node, existing node, head_id text, at_ms bigint, exclusive boolean)
RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    parent node;
BEGIN
    IF fresh.parent_id IS NOT NULL THEN
        SELECT * INTO parent FROM node WHERE tenant = fresh.tenant AND id = fresh.parent_id;
        IF parent.id = head_id THEN
            parent.deleted := false;
        END IF;
        IF NOT is_readable_v1(parent, at_ms) THEN
            RETURN refused_v1('no_parent', NULL);
        ELSIF parent.place & 16777215 = 16777215 THEN
            RETURN refused_v1('too_deep', '16777215');
        END IF;
    END IF;
    IF existing.place IS NOT NULL THEN
        IF NOT exclusive THEN
            RETURN refused_v1('again', NULL);
        END IF;
        PERFORM reclaim_v1(existing.place, at_ms);
        IF EXISTS (SELECT FROM node WHERE tenant = fresh.tenant AND id = fresh.id) THEN
            RETURN refused_v1('exists', NULL);
        END IF;
    END IF;
    fresh.place := new_place_v1(parent.place);
    INSERT INTO node (place, tenant, id, parent_id, session_id, status, version, created_at_ms, updated_at_ms,
        expires_at_ms, items_crc, body_crc, input_bytes, items, body)
    VALUES (fresh.place, fresh.tenant, fresh.id, fresh.parent_id, fresh.session_id, fresh.status, 1, at_ms, at_ms,
        fresh.expires_at_ms, fresh.items_crc, fresh.body_crc, fresh.input_bytes, fresh.items, fresh.body)
    ON CONFLICT DO NOTHING
    RETURNING * INTO existing;
    IF NOT FOUND THEN
        DELETE FROM branch WHERE id = fresh.place >> 24 AND id IS DISTINCT FROM parent.place >> 24;
        RETURN NULL;
    END IF;
    RETURN stored_v1(existing);
END
$$;

-- Everything of a response but its place, its parent and its birth.
CREATE FUNCTION replace_v1(fresh node, existing node, at_ms bigint) RETURNS write_outcome_v1 LANGUAGE sql VOLATILE AS $$
    UPDATE node
    SET session_id = fresh.session_id, status = fresh.status, version = node.version + 1, updated_at_ms = at_ms,
        expires_at_ms = fresh.expires_at_ms, items_crc = fresh.items_crc, body_crc = fresh.body_crc,
        input_bytes = fresh.input_bytes, items = fresh.items, body = fresh.body
    WHERE place = existing.place
    RETURNING stored_v1(node);
$$;

-- The end of a turn: the session's head and the end of its lease. A former head that was deleted has lost what kept it.
CREATE FUNCTION move_head_v1(state session, new_head_id text, at_ms bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    former bigint;
BEGIN
    UPDATE session SET head_id = new_head_id, holder = '', lease_expires_at_ms = 0
    WHERE tenant = state.tenant AND id = state.id;
    SELECT place INTO former FROM node WHERE tenant = state.tenant AND id = state.head_id AND deleted;
    IF FOUND THEN
        PERFORM reclaim_v1(former, at_ms);
    END IF;
END
$$;

-- Inserts or replaces a response; a write that ends a turn also moves its session's head and frees the lease. The rules
-- are those of admission.py. Locks are taken in this order: session, trees, response.
--
-- Writers of one tree share its lock, so whatever one found readable stays while it writes; among themselves the unique
-- keys (place, id) decide, and whoever lost looks again. A write that has to take something out of a tree needs the lock
-- for itself: without it the outcome is 'again', nothing was written, and the caller repeats with `exclusive`.
CREATE FUNCTION write_v1(
    given_ms bigint, of_tenant text, of_id text, of_parent text, of_session text, new_status text,
    new_items_crc bigint, new_body_crc bigint, new_input_bytes bigint, new_items bytea, new_body bytea, ttl_ms bigint,
    expected_version bigint, statuses text[], unless_statuses text[],
    fence_session text, fence_token bigint, ends_turn boolean, exclusive boolean
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state session;
    fresh node;
    existing node;
    at_ms bigint;
    is_replay boolean;
    answer write_outcome_v1;
BEGIN
    IF fence_session IS NOT NULL THEN
        SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = fence_session FOR NO KEY UPDATE;
    END IF;
    IF NOT ends_turn THEN
        state.head_id := NULL;
    END IF;
    PERFORM lock_trees_v1(of_tenant, ARRAY[of_id, state.head_id], exclusive);
    IF NOT exclusive AND EXISTS (
        SELECT FROM node WHERE tenant = of_tenant AND id = state.head_id AND id <> of_id AND deleted
    ) THEN
        RETURN refused_v1('again', NULL);
    END IF;
    fresh.tenant := of_tenant;
    fresh.id := of_id;
    fresh.parent_id := of_parent;
    fresh.session_id := of_session;
    fresh.status := new_status;
    fresh.items_crc := new_items_crc;
    fresh.body_crc := new_body_crc;
    fresh.input_bytes := new_input_bytes;
    fresh.items := new_items;
    fresh.body := new_body;
    WHILE answer IS NULL LOOP
        SELECT * INTO existing FROM node WHERE tenant = of_tenant AND id = of_id FOR NO KEY UPDATE;
        at_ms := now_ms_v1(given_ms);
        fresh.expires_at_ms := at_ms + ttl_ms;
        is_replay := is_readable_v1(existing, at_ms)
            AND existing.status = new_status
            AND existing.parent_id IS NOT DISTINCT FROM of_parent
            AND existing.session_id IS NOT DISTINCT FROM of_session
            AND existing.input_bytes = new_input_bytes AND existing.items = new_items AND existing.body = new_body
            AND coalesce(expected_version = existing.version - 1, true);
        IF is_replay THEN
            answer := stored_v1(existing);
        ELSIF NOT is_fence_good_v1(given_ms, of_tenant, fence_session, fence_token) THEN
            answer := refused_v1('stale_fence', NULL);
        ELSIF is_readable_v1(existing, at_ms) THEN
            answer := CASE
                WHEN coalesce(expected_version, 0) = 0 AND cardinality(statuses || unless_statuses) = 0
                    THEN refused_v1('exists', NULL)
                ELSE refusal_v1(existing, expected_version, statuses, unless_statuses)
            END;
            IF answer IS NULL AND existing.parent_id IS DISTINCT FROM of_parent THEN
                answer := refused_v1('other_parent', NULL);
            ELSIF answer IS NULL THEN
                answer := replace_v1(fresh, existing, at_ms);
            END IF;
        ELSIF expected_version > 0 THEN
            answer := refused_v1('other_version', '0');
        ELSIF cardinality(statuses || unless_statuses) > 0 THEN
            answer := refused_v1('other_status', 'absent');
        ELSE
            answer := insert_v1(fresh, existing, state.head_id, at_ms, exclusive);
        END IF;
    END LOOP;
    IF ends_turn AND answer.outcome = 'stored' AND is_held_v1(state, fence_token, at_ms) THEN
        PERFORM move_head_v1(state, of_id, at_ms);
    END IF;
    RETURN answer;
END
$$;

-- Makes a readable response unreadable and lets go of what nothing keeps any more.
CREATE FUNCTION remove_v1(
    given_ms bigint, of_tenant text, of_id text, expected_version bigint, statuses text[], unless_statuses text[],
    fence_session text, fence_token bigint
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_good boolean := is_fence_good_v1(given_ms, of_tenant, fence_session, fence_token); -- sessions are locked first
    existing node;
    at_ms bigint;
    answer write_outcome_v1;
BEGIN
    PERFORM lock_trees_v1(of_tenant, ARRAY[of_id], true);
    SELECT * INTO existing FROM node WHERE tenant = of_tenant AND id = of_id;
    at_ms := now_ms_v1(given_ms);
    IF NOT is_readable_v1(existing, at_ms) THEN
        RETURN refused_v1('missing', NULL);
    ELSIF NOT is_good THEN
        RETURN refused_v1('stale_fence', NULL);
    END IF;
    answer := refusal_v1(existing, expected_version, statuses, unless_statuses);
    IF answer IS NULL THEN
        UPDATE node SET deleted = true WHERE place = existing.place;
        PERFORM reclaim_v1(existing.place, at_ms);
        answer := stored_v1(existing);
    END IF;
    RETURN answer;
END
$$;
