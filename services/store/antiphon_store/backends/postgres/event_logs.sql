-- The statements of event logs; see queries.sql.

-- name: append_events
SELECT outcome, next_position
FROM append_events_v2(
    %(now_ms)s, %(tenant)s, %(response_id)s,
    ROW(%(first_sequence)s, %(count)s, %(terminal)s, %(crc)s, %(checkpoint_offset)s, %(token_ids)s, %(frames)s,
        %(log_ttl_ms)s)::log_batch_v1,
    %(fence_session)s, %(fence_token)s
);

-- name: read_log
-- The end of a log that has not expired and, one per row, its batches from the one that holds the position on, until
-- their frames are so many bytes or more; one row without a batch when there is none.
SELECT next_position, closed, batch.first_sequence, batch.count, terminal, crc, checkpoint_offset, token_ids, frames
FROM event_log
LEFT JOIN LATERAL (
    SELECT log, first_sequence, sum(octet_length(frames)) OVER (ORDER BY first_sequence) - octet_length(frames) AS before
    FROM event_batch
    WHERE log = event_log.id AND first_sequence + count > %(position)s AND first_sequence >= (
        SELECT max(first_sequence) FROM event_batch WHERE log = event_log.id AND first_sequence <= %(position)s
    )
) AS page ON page.before < %(max_bytes)s
LEFT JOIN event_batch AS batch ON batch.log = page.log AND batch.first_sequence = page.first_sequence
WHERE tenant = %(tenant)s AND response_id = %(response_id)s AND expires_at_ms > (SELECT now_ms_v1(%(now_ms)s))
ORDER BY batch.first_sequence;
