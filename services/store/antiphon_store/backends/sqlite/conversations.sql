-- Every statement on conversations, by name. Tables and columns: migrations/*_conversations.sql.

-- name: read_conversation
SELECT metadata, version, created_at_ms, expires_at_ms, origin, incarnation
FROM conversation WHERE tenant = :tenant AND id = :id;

-- name: write_conversation
INSERT INTO conversation (tenant, id, metadata, version, created_at_ms, expires_at_ms, origin, incarnation)
VALUES (:tenant, :id, :metadata, :version, :created_at_ms, :expires_at_ms, :origin, :incarnation)
ON CONFLICT (tenant, id) DO UPDATE SET metadata = excluded.metadata, version = excluded.version;

-- name: drop_conversation
DELETE FROM conversation WHERE tenant = :tenant AND id = :id;

-- name: removed_items
SELECT item_id FROM removed_item WHERE tenant = :tenant AND conversation_id = :id;

-- name: remove_item
INSERT INTO removed_item (tenant, conversation_id, item_id) VALUES (:tenant, :id, :item_id)
ON CONFLICT DO NOTHING;

-- name: restore_items
DELETE FROM removed_item WHERE tenant = :tenant AND conversation_id = :id;

-- name: read_stored_node
-- As `read_node`, whether it can be seen or not.
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body
FROM node
WHERE tenant = :tenant AND id = :id;
