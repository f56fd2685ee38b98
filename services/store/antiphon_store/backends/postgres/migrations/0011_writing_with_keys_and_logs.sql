-- What a writer decides about a response. Without an id it is none.
CREATE TYPE draft_v1 AS (
    id text, parent_id text, session_id text, status text, items_crc bigint, body_crc bigint, input_bytes bigint,
    items bytea, body bytea, ttl_ms bigint
);

CREATE TYPE precondition_v1 AS (
    version bigint, statuses text[], unless_statuses text[], fence_session text, fence_token bigint
);

-- The key that a write comes with, if any. Without a fingerprint it is the one that BeginTurn claimed.
CREATE TYPE key_v1 AS (key bytea, fingerprint bytea, memory_ms bigint);

CREATE FUNCTION node_of_v1(of_tenant text, draft draft_v1, expires_at_ms bigint) RETURNS node LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    fresh node;
BEGIN
    fresh.tenant := of_tenant;
    fresh.id := draft.id;
    fresh.parent_id := draft.parent_id;
    fresh.session_id := draft.session_id;
    fresh.status := draft.status;
    fresh.items_crc := draft.items_crc;
    fresh.body_crc := draft.body_crc;
    fresh.input_bytes := draft.input_bytes;
    fresh.items := draft.items;
    fresh.body := draft.body;
    fresh.expires_at_ms := expires_at_ms;
    RETURN fresh;
END
$$;

-- What a write under a key is answered without being tried; without an outcome it is to be tried. A key that is bound by
-- a write of this fingerprint gives the stamp of that one.
CREATE FUNCTION key_answer_v1(used idempotency_key, use key_v1, of_id text, at_ms bigint)
RETURNS write_outcome_v1 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    answer write_outcome_v1;
BEGIN
    IF NOT is_key_held_v1(used, at_ms) THEN
        RETURN answer;
    ELSIF used.response_id <> of_id OR (used.fingerprint <> '' AND used.fingerprint <> use.fingerprint) THEN
        RETURN refused_v1('other_key', NULL);
    ELSIF use.fingerprint IS NOT NULL AND used.version IS NOT NULL THEN
        RETURN ROW('stored', NULL, used.version, used.place, used.created_at_ms, used.updated_at_ms,
            used.record_expires_at_ms)::write_outcome_v1;
    END IF;
    RETURN answer;
END
$$;

-- The key as a write leaves it: idempotency.bound. The first binding stays; a claim of the same response hands its
-- fingerprint on.
CREATE FUNCTION bind_key_v1(
    used idempotency_key, use key_v1, of_tenant text, of_id text, answer write_outcome_v1, at_ms bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own boolean := coalesce(used.response_id = of_id AND at_ms < used.expires_at_ms, false);
BEGIN
    IF own AND used.version IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM keep_key_v1(ROW(of_tenant, use.key, of_id,
        coalesce(use.fingerprint, CASE WHEN own THEN used.fingerprint END, ''),
        at_ms, at_ms + use.memory_ms, answer.version, answer.place, answer.created_at_ms, answer.updated_at_ms,
        answer.expires_at_ms)::idempotency_key, at_ms);
END
$$;

-- Why a response may not be written now, apart from its log and its place; without an outcome it may. The rules are those
-- of admission.py; the turn's fence comes first.
CREATE FUNCTION write_refusal_v1(
    of_tenant text, draft draft_v1, condition precondition_v1, turn_session text, turn_token bigint, existing node,
    at_ms bigint
) RETURNS write_outcome_v1 LANGUAGE plpgsql STABLE AS $$
DECLARE
    answer write_outcome_v1;
BEGIN
    IF NOT is_fence_good_v2(of_tenant, turn_session, turn_token, at_ms) THEN
        RETURN refused_v1('stale_turn', NULL);
    ELSIF NOT is_fence_good_v2(of_tenant, condition.fence_session, condition.fence_token, at_ms) THEN
        RETURN refused_v1('stale_fence', NULL);
    ELSIF NOT is_readable_v1(existing, at_ms) THEN
        RETURN CASE
            WHEN condition.version > 0 THEN refused_v1('other_version', '0')
            WHEN cardinality(condition.statuses || condition.unless_statuses) > 0
                THEN refused_v1('other_status', 'absent')
        END;
    ELSIF coalesce(condition.version, 0) = 0 AND cardinality(condition.statuses || condition.unless_statuses) = 0 THEN
        RETURN refused_v1('exists', NULL);
    END IF;
    answer := refusal_v1(existing, condition.version, condition.statuses, condition.unless_statuses);
    IF answer.outcome IS NULL AND existing.parent_id IS DISTINCT FROM draft.parent_id THEN
        RETURN refused_v1('other_parent', NULL);
    END IF;
    RETURN answer;
END
$$;

-- Why a log does not take what a write brings for it; without an outcome it does.
CREATE FUNCTION log_refusal_v1(state event_log, batch log_batch_v1) RETURNS write_outcome_v1 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN state.closed THEN refused_v1('log_closed', NULL)
        WHEN state.next_position <> batch.first_sequence THEN refused_v1('other_position', state.next_position::text)
    END;
$$;

-- Why a session may not make another response; without an outcome it may. The caller lets no other make one meanwhile.
CREATE FUNCTION room_refusal_v1(of_tenant text, of_session text, session_most bigint, at_ms bigint)
RETURNS write_outcome_v1 LANGUAGE plpgsql STABLE AS $$
DECLARE
    made bigint;
    answer write_outcome_v1;
BEGIN
    SELECT count(*) INTO made FROM (
        SELECT FROM node WHERE tenant = of_tenant AND session_id = of_session AND NOT deleted
            AND (expires_at_ms IS NULL OR expires_at_ms > at_ms)
        LIMIT session_most
    ) AS readable;
    IF made >= session_most THEN
        answer := refused_v1('full', made::text);
    END IF;
    RETURN answer;
END
$$;

-- The items by which a response can be found, and no others.
CREATE FUNCTION index_items_v1(of_tenant text, of_place bigint, digests bytea[]) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    DELETE FROM item WHERE place = of_place AND digest <> ALL (digests);
    INSERT INTO item (tenant, digest, place) SELECT of_tenant, each, of_place FROM unnest(digests) AS each
    ON CONFLICT DO NOTHING;
END
$$;

-- Inserts or replaces a response, with the end of its log and the binding of a key. A write that ends a turn also moves
-- its session's head and frees the lease. Locks are taken in this order: key, leases, the session's count, trees,
-- response, log. Who waits for a place or an id that another is just taking holds all locks that it will need.
--
-- Writers of one tree share its lock, so whatever one found readable stays while it writes; among themselves the unique
-- keys (place, id) decide, and whoever lost looks again. A write that has to take something out of a tree needs the lock
-- for itself: without it the outcome is 'again', nothing was written, and the caller repeats with `exclusive`.
CREATE FUNCTION write_v2(
    given_ms bigint, of_tenant text, draft draft_v1, digests bytea[], condition precondition_v1,
    turn_session text, turn_token bigint, log_end log_batch_v1, session_most bigint, by_key key_v1, exclusive boolean
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used idempotency_key;
    state session;
    log event_log;
    existing node;
    at_ms bigint;
    answer write_outcome_v1;
    has_log boolean := log_end.first_sequence IS NOT NULL;
    is_counted boolean := session_most IS NOT NULL AND draft.session_id IS NOT NULL;
BEGIN
    IF by_key.key IS NOT NULL THEN
        used := lock_key_v1(of_tenant, by_key.key);
        answer := key_answer_v1(used, by_key, draft.id, now_ms_v1(given_ms));
        IF answer.outcome IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    IF turn_session IS NOT NULL OR condition.fence_session IS NOT NULL THEN
        PERFORM hold_leases_v1(of_tenant, turn_session, condition.fence_session);
        SELECT * INTO state FROM session WHERE tenant = of_tenant AND id = turn_session;
    END IF;
    IF is_counted THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('room ' || of_tenant || ' ' || draft.session_id, 0));
    END IF;
    PERFORM lock_trees_v1(of_tenant, ARRAY[draft.id, state.head_id], exclusive);
    IF NOT exclusive AND state.head_id IS DISTINCT FROM draft.parent_id AND EXISTS (
        SELECT FROM node WHERE tenant = of_tenant AND id = state.head_id AND id <> draft.id AND deleted
    ) THEN
        RETURN refused_v1('again', NULL);
    END IF;
    LOOP
        SELECT * INTO existing FROM node WHERE tenant = of_tenant AND id = draft.id FOR NO KEY UPDATE;
        at_ms := now_ms_v1(given_ms);
        IF is_readable_v1(existing, at_ms)
            AND existing.status = draft.status
            AND existing.parent_id IS NOT DISTINCT FROM draft.parent_id
            AND existing.session_id IS NOT DISTINCT FROM draft.session_id
            AND existing.input_bytes = draft.input_bytes
            AND existing.items = draft.items AND existing.body = draft.body
            AND coalesce(condition.version = existing.version - 1, true)
        THEN
            answer := stored_v1(existing);
            EXIT;
        END IF;
        answer := write_refusal_v1(of_tenant, draft, condition, turn_session, turn_token, existing, at_ms);
        IF answer.outcome IS NULL AND has_log THEN
            log := lock_log_v1(given_ms, of_tenant, draft.id);
            answer := log_refusal_v1(log, log_end);
        END IF;
        EXIT WHEN answer.outcome IS NOT NULL;
        IF is_readable_v1(existing, at_ms) THEN
            answer := replace_v1(node_of_v1(of_tenant, draft, at_ms + draft.ttl_ms), existing, at_ms);
        ELSE
            IF is_counted THEN
                answer := room_refusal_v1(of_tenant, draft.session_id, session_most, at_ms);
                EXIT WHEN answer.outcome IS NOT NULL;
            END IF;
            answer := insert_v1(
                node_of_v1(of_tenant, draft, at_ms + draft.ttl_ms), existing, state.head_id, at_ms, exclusive);
            CONTINUE WHEN answer.outcome IS NULL;
        END IF;
        IF answer.outcome = 'stored' THEN
            PERFORM index_items_v1(of_tenant, answer.place, digests);
            IF has_log THEN
                PERFORM extend_log_v1(log, log_end, at_ms);
            END IF;
        END IF;
        EXIT;
    END LOOP;
    IF log.id IS NOT NULL THEN
        PERFORM drop_empty_log_v1(log.id);
    END IF;
    IF answer.outcome = 'stored' THEN
        IF is_held_v1(state, turn_token, at_ms) THEN
            PERFORM move_head_v1(state, draft.id, at_ms);
        END IF;
        IF by_key.key IS NOT NULL THEN
            PERFORM bind_key_v1(used, by_key, of_tenant, draft.id, answer, at_ms);
        END IF;
    END IF;
    RETURN answer;
END
$$;
