-- The statements of event logs; see queries.sql.

-- name: read_log_end
SELECT id, next_position, closed, expires_at_ms FROM event_log WHERE tenant = :tenant AND response_id = :response_id;

-- name: begin_log
INSERT INTO event_log (tenant, response_id, next_position, closed, expires_at_ms)
VALUES (:tenant, :response_id, :next_position, :closed, :expires_at_ms);

-- name: extend_log
UPDATE event_log SET next_position = :next_position, closed = :closed, expires_at_ms = :expires_at_ms WHERE id = :log;

-- name: insert_batch
INSERT INTO event_batch (log, first_sequence, count, terminal, crc, checkpoint_offset, token_ids, frames)
VALUES (:log, :first_sequence, :count, :terminal, :crc, :checkpoint_offset, :token_ids, :frames);

-- name: read_batch
SELECT first_sequence, count, terminal, crc, checkpoint_offset, token_ids, frames
FROM event_batch
WHERE log = :log AND first_sequence = :position;

-- name: read_log
-- The end of a log that has not expired and, one per row, its batches from the one that holds :position on; one row
-- without a batch when there is none.
SELECT next_position, closed, first_sequence, count, terminal, crc, checkpoint_offset, token_ids, frames
FROM event_log
LEFT JOIN event_batch ON log = event_log.id AND first_sequence + count > :position AND first_sequence >= (
    SELECT max(first_sequence) FROM event_batch WHERE log = event_log.id AND first_sequence <= :position
)
WHERE tenant = :tenant AND response_id = :response_id AND expires_at_ms > :now_ms
ORDER BY first_sequence;

-- name: drop_batches
DELETE FROM event_batch WHERE log = :log;

-- name: drop_log
DELETE FROM event_log WHERE id = :log;
