-- The statements that write responses and begin turns; see queries.sql.

-- name: write
SELECT (answer).*
FROM write_v3(
    %(now_ms)s, %(tenant)s,
    ROW(%(id)s, %(parent_id)s, %(session_id)s, %(status)s, %(items_crc)s, %(body_crc)s, %(input_bytes)s, %(items)s,
        %(body)s, %(ttl_ms)s)::draft_v1,
    %(digests)s,
    ROW(%(expected_version)s, %(statuses)s, %(unless_statuses)s, %(fence_session)s, %(fence_token)s)::precondition_v1,
    %(turn_session)s, %(turn_token)s,
    ROW(%(first_sequence)s, %(count)s, %(terminal)s, %(crc)s, %(checkpoint_offset)s, %(token_ids)s, %(frames)s,
        %(log_ttl_ms)s)::log_batch_v1,
    %(session_most)s,
    ROW(%(key)s, %(fingerprint)s, %(memory_ms)s)::key_v1,
    %(exclusive)s
) AS answer;

-- name: forget_key
DELETE FROM idempotency_key
WHERE tenant = %(tenant)s AND key = %(key)s AND response_id = %(response_id)s AND version IS NULL
RETURNING response_id;

-- name: history
SELECT history.*
FROM now_ms_v1(%(now_ms)s) AS now_ms,
    continued_v1(%(tenant)s, %(id)s, now_ms, %(max_depth)s, %(max_bytes)s) AS history;

-- name: begin_turn
SELECT outcome, head_id, token, expires_at_ms, removed, depth, history_bytes, place, id, items_crc, input_bytes, items
FROM begin_turn_v2(
    %(now_ms)s, %(tenant)s, %(session_id)s, %(holder)s, %(ttl_ms)s, %(max_depth)s, %(max_bytes)s, %(whole_bytes)s,
    %(seen_head)s, %(seen_removed)s
);

-- name: begin_turn_once
SELECT outcome, head_id, token, expires_at_ms, removed, depth, history_bytes, place, id, items_crc, input_bytes, items,
    (bound).id, (bound).parent_id, (bound).session_id, (bound).status, (bound).version, (bound).place,
    (bound).created_at_ms, (bound).updated_at_ms, (bound).expires_at_ms, (bound).items_crc, (bound).body_crc,
    (bound).input_bytes, (bound).items, (bound).body
FROM begin_turn_once_v2(
    %(now_ms)s, %(tenant)s, %(key)s, %(fingerprint)s, %(response_id)s, %(claim_ttl_ms)s, %(memory_ms)s,
    %(previous_id)s, %(session_id)s, %(holder)s, %(ttl_ms)s, %(max_depth)s, %(max_bytes)s, %(whole_bytes)s,
    %(seen_head)s, %(seen_removed)s
);
