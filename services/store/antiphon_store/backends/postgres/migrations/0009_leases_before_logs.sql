-- Two sessions, either of which may be NULL, locked in the order of their ids, so that two writers never wait for each
-- other. One row at a time: a planner without statistics may read all sessions of the tenant to have two in an order.
CREATE FUNCTION hold_sessions_v1(of_tenant text, one text, other text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first text := least(one COLLATE "C", other COLLATE "C");
    second text := nullif(greatest(one COLLATE "C", other COLLATE "C"), first);
BEGIN
    PERFORM FROM session WHERE tenant = of_tenant AND id = first FOR NO KEY UPDATE;
    IF second IS NOT NULL THEN
        PERFORM FROM session WHERE tenant = of_tenant AND id = second FOR NO KEY UPDATE;
    END IF;
END
$$;

-- Until the end of the transaction nobody takes, ends or extends the leases of these two ids: jobs first, then sessions,
-- each in the order of their ids.
CREATE FUNCTION hold_leases_v1(of_tenant text, one text, other text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first text := least(one COLLATE "C", other COLLATE "C");
    second text := nullif(greatest(one COLLATE "C", other COLLATE "C"), first);
BEGIN
    PERFORM FROM job WHERE tenant = of_tenant AND job_id = first FOR SHARE;
    IF second IS NOT NULL THEN
        PERFORM FROM job WHERE tenant = of_tenant AND job_id = second FOR SHARE;
    END IF;
    PERFORM hold_sessions_v1(of_tenant, first, second);
END
$$;

-- Whether the lease of a fence lives: that of a job, when there is one of this id (as time left it), or of a session. No
-- fence is always good. The caller holds it: hold_leases_v1.
CREATE FUNCTION is_fence_good_v2(of_tenant text, fence_session text, fence_token bigint, at_ms bigint)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_good boolean;
BEGIN
    IF fence_session IS NULL THEN
        RETURN true;
    END IF;
    SELECT holder <> '' AND lease_expires_at_ms > at_ms AND attempts = fence_token INTO is_good FROM job
    WHERE tenant = of_tenant AND job_id = fence_session AND coalesce(forgettable_at_ms > at_ms, true);
    IF NOT FOUND THEN
        SELECT is_held_v1(session, fence_token, at_ms) INTO is_good FROM session
        WHERE tenant = of_tenant AND id = fence_session;
    END IF;
    RETURN coalesce(is_good, false);
END
$$;

-- What is appended to a log, and how long the log is kept from now. Without a first_sequence it is nothing.
CREATE TYPE log_batch_v1 AS (
    first_sequence bigint, count bigint, terminal boolean, crc bigint, checkpoint_offset bigint, token_ids bytea,
    frames bytea, ttl_ms bigint
);

-- A log's row, locked, as time left it; made first when there is none. Who appends nothing takes it away again:
-- drop_empty_log_v1.
CREATE FUNCTION lock_log_v1(given_ms bigint, of_tenant text, of_response text)
RETURNS event_log LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    state event_log;
BEGIN
    LOOP
        SELECT * INTO state FROM event_log WHERE tenant = of_tenant AND response_id = of_response FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO event_log (tenant, response_id) VALUES (of_tenant, of_response) ON CONFLICT DO NOTHING;
    END LOOP;
    IF state.next_position > 0 AND state.expires_at_ms <= now_ms_v1(given_ms) THEN
        DELETE FROM event_batch WHERE log = state.id;
        UPDATE event_log SET next_position = 0, closed = false WHERE id = state.id RETURNING * INTO state;
    END IF;
    RETURN state;
END
$$;

-- Appends to a locked log; the rules are those of log_states.py.
CREATE FUNCTION extend_log_v1(state event_log, batch log_batch_v1, at_ms bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE event_log SET next_position = batch.first_sequence + batch.count, closed = batch.terminal,
        expires_at_ms = at_ms + batch.ttl_ms
    WHERE id = state.id;
    INSERT INTO event_batch (log, first_sequence, count, terminal, crc, checkpoint_offset, token_ids, frames)
    VALUES (state.id, batch.first_sequence, batch.count, batch.terminal, batch.crc, batch.checkpoint_offset,
        batch.token_ids, batch.frames);
END
$$;

CREATE FUNCTION drop_empty_log_v1(log bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM event_log WHERE id = log AND next_position = 0;
END
$$;

-- append_events_v1 with its locks in the order of write_v2: leases, then the log.
CREATE FUNCTION append_events_v2(
    given_ms bigint, of_tenant text, of_response text, batch log_batch_v1, fence_session text, fence_token bigint
) RETURNS TABLE (outcome text, next_position bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    state event_log;
    at_ms bigint;
BEGIN
    IF fence_session IS NOT NULL THEN
        PERFORM hold_leases_v1(of_tenant, fence_session, NULL);
    END IF;
    state := lock_log_v1(given_ms, of_tenant, of_response);
    at_ms := now_ms_v1(given_ms);
    IF EXISTS (
        SELECT FROM event_batch WHERE log = state.id AND first_sequence = batch.first_sequence
            AND count = batch.count AND terminal = batch.terminal
            AND checkpoint_offset IS NOT DISTINCT FROM batch.checkpoint_offset
            AND token_ids = batch.token_ids AND frames = batch.frames
    ) THEN
        outcome := 'stored';
        next_position := batch.first_sequence + batch.count;
    ELSIF NOT is_fence_good_v2(of_tenant, fence_session, fence_token, at_ms) THEN
        outcome := 'stale_fence';
    ELSIF state.closed THEN
        outcome := 'closed';
    ELSIF state.next_position <> batch.first_sequence THEN
        outcome := 'other_position';
        next_position := state.next_position;
    ELSE
        outcome := 'stored';
        next_position := batch.first_sequence + batch.count;
        PERFORM extend_log_v1(state, batch, at_ms);
    END IF;
    PERFORM drop_empty_log_v1(state.id);
    RETURN NEXT;
END
$$;
