-- The statements of conversations; see queries.sql.

-- name: create_conversation
SELECT outcome, metadata, version, created_at_ms
FROM create_conversation_v2(
    %(now_ms)s, %(tenant)s, %(conversation_id)s, %(metadata)s, %(origin)s, %(incarnation)s, %(conversation_ttl_ms)s,
    ROW(%(id)s, %(parent_id)s, %(session_id)s, %(status)s, %(items_crc)s, %(body_crc)s, %(input_bytes)s, %(items)s,
        %(body)s, %(ttl_ms)s)::draft_v1,
    %(digests)s
);

-- name: read_conversation
SELECT metadata, version, created_at_ms, origin, incarnation, expires_at_ms
FROM conversation
WHERE tenant = %(tenant)s AND id = %(conversation_id)s
    AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)));

-- name: update_conversation
SELECT outcome, metadata, version, created_at_ms
FROM update_conversation_v1(%(now_ms)s, %(tenant)s, %(conversation_id)s, %(metadata)s, %(expected_version)s);

-- name: remove_conversation
SELECT remove_conversation_v2(%(now_ms)s, %(tenant)s, %(conversation_id)s);

-- name: add_items
SELECT outcome, (stored).id, (stored).parent_id, (stored).session_id, (stored).status, (stored).version, (stored).place,
    (stored).created_at_ms, (stored).updated_at_ms, (stored).expires_at_ms, (stored).items_crc, (stored).body_crc,
    (stored).input_bytes, (stored).items, (stored).body
FROM add_items_v2(
    %(now_ms)s, %(tenant)s, %(conversation_id)s, %(incarnation)s,
    ROW(%(id)s, %(parent_id)s, %(session_id)s, %(status)s, %(items_crc)s, %(body_crc)s, %(input_bytes)s, %(items)s,
        %(body)s, %(ttl_ms)s)::draft_v1,
    %(fence_token)s, %(digests)s
);

-- name: read_context
SELECT outcome, head_id, removed, metadata, version, created_at_ms, depth, history_bytes, place, id, items_crc,
    input_bytes, items
FROM context_v1(%(now_ms)s, %(tenant)s, %(conversation_id)s, %(max_depth)s, %(max_bytes)s);

-- name: remove_item
SELECT remove_item_v1(%(now_ms)s, %(tenant)s, %(conversation_id)s, %(seen_head)s, %(digest)s, %(item_id)s);
