-- write_v2 that may continue the head of any session whose lease it is made under, deleted or not.
--
-- Inserts or replaces a response, with the end of its log and the binding of a key. A write that ends a turn also moves
-- its session's head and frees the lease. Locks are taken in this order: key, leases, the session's count, trees,
-- response, log. Who waits for a place or an id that another is just taking holds all locks that it will need.
--
-- Writers of one tree share its lock, so whatever one found readable stays while it writes; among themselves the unique
-- keys (place, id) decide, and whoever lost looks again. A write that has to take something out of a tree needs the lock
-- for itself: without it the outcome is 'again', nothing was written, and the caller repeats with `exclusive`.
CREATE FUNCTION write_v3(
    given_ms bigint, of_tenant text, draft draft_v1, digests bytea[], condition precondition_v1,
    turn_session text, turn_token bigint, log_end log_batch_v1, session_most bigint, by_key key_v1, exclusive boolean
) RETURNS write_outcome_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    used idempotency_key;
    state session;
    held_head text; -- that of the session whose fence the precondition brings
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
        SELECT head_id INTO held_head FROM session WHERE tenant = of_tenant AND id = condition.fence_session;
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
            answer := insert_v1(node_of_v1(of_tenant, draft, at_ms + draft.ttl_ms), existing,
                CASE WHEN draft.parent_id = held_head THEN held_head ELSE state.head_id END, at_ms, exclusive);
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
