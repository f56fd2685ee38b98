-- A session with metadata, under the session's id. origin and incarnation: backends/conversations.py.
CREATE TABLE conversation (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    metadata BLOB NOT NULL,
    version INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    origin TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- An item that was taken out of a conversation's context; the nodes that hold it stay as they are.
CREATE TABLE removed_item (
    tenant TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    PRIMARY KEY (tenant, conversation_id, item_id)
) WITHOUT ROWID;
