-- One event log: where it ends. It belongs to a response id that need not be stored.
CREATE TABLE event_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    response_id text COLLATE "C" NOT NULL,
    next_position bigint NOT NULL DEFAULT 0,
    closed boolean NOT NULL DEFAULT false,
    expires_at_ms bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX event_log_by_response ON event_log (tenant, response_id);
CREATE INDEX event_log_by_end ON event_log (expires_at_ms);

-- Frames as they were appended, one row per append.
CREATE TABLE event_batch (
    log bigint NOT NULL,
    first_sequence bigint NOT NULL,
    count bigint NOT NULL,
    terminal boolean NOT NULL,
    crc bigint NOT NULL, -- of everything else in the row and the response's id (event_logs.py)
    checkpoint_offset bigint, -- NULL when the append had no checkpoint
    token_ids bytea NOT NULL, -- four bytes each, little endian
    frames bytea NOT NULL,
    PRIMARY KEY (log, first_sequence)
);

-- Appends a batch; the rules are those of log_states.py. `next_position` is the log's. A log is one row, locked by
-- whoever appends; what is left of an expired one goes first.
CREATE FUNCTION append_events_v1(
    given_ms bigint, of_tenant text, of_response text, new_position bigint, new_count bigint, ends_log boolean,
    new_crc bigint, new_offset bigint, new_token_ids bytea, new_frames bytea, ttl_ms bigint,
    fence_session text, fence_token bigint
) RETURNS TABLE (outcome text, next_position bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    state event_log;
    at_ms bigint;
BEGIN
    LOOP
        SELECT * INTO state FROM event_log WHERE tenant = of_tenant AND response_id = of_response FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO event_log (tenant, response_id) VALUES (of_tenant, of_response) ON CONFLICT DO NOTHING;
    END LOOP;
    at_ms := now_ms_v1(given_ms);
    IF state.expires_at_ms <= at_ms THEN
        DELETE FROM event_batch WHERE log = state.id;
        UPDATE event_log SET next_position = 0, closed = false WHERE id = state.id RETURNING * INTO state;
    END IF;
    IF EXISTS (
        SELECT FROM event_batch WHERE log = state.id AND first_sequence = new_position AND count = new_count
            AND terminal = ends_log AND checkpoint_offset IS NOT DISTINCT FROM new_offset
            AND token_ids = new_token_ids AND frames = new_frames
    ) THEN
        outcome := 'stored';
        next_position := new_position + new_count;
    ELSIF NOT is_fence_good_v1(given_ms, of_tenant, fence_session, fence_token) THEN
        outcome := 'stale_fence';
    ELSIF state.closed THEN
        outcome := 'closed';
    ELSIF state.next_position <> new_position THEN
        outcome := 'other_position';
        next_position := state.next_position;
    ELSE
        outcome := 'stored';
        next_position := new_position + new_count;
        UPDATE event_log SET next_position = append_events_v1.next_position, closed = ends_log,
            expires_at_ms = at_ms + ttl_ms
        WHERE id = state.id;
        INSERT INTO event_batch (log, first_sequence, count, terminal, crc, checkpoint_offset, token_ids, frames)
        VALUES (state.id, new_position, new_count, ends_log, new_crc, new_offset, new_token_ids, new_frames);
    END IF;
    DELETE FROM event_log AS empty WHERE empty.id = state.id AND empty.next_position = 0;
    RETURN NEXT;
END
$$;
