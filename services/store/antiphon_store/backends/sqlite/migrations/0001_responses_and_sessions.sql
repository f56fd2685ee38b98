-- A branch is a line of responses without forks. The first child of its last response extends it; every other child
-- of any of its responses begins a branch of its own.
CREATE TABLE branch (
    id INTEGER PRIMARY KEY,
    forked_at INTEGER -- the place of the response that the branch's first one continues; NULL for a root
);
CREATE INDEX branch_by_fork ON branch (forked_at) WHERE forked_at IS NOT NULL;

-- One response. Its place is branch * 2^24 + depth, so a chain is one range of the table per branch, and history can
-- be read without the bodies, which come last.
CREATE TABLE node (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    parent_id TEXT,
    session_id TEXT,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    deleted INTEGER NOT NULL DEFAULT 0,
    items_crc INTEGER NOT NULL, -- of id, input_bytes, items (packing.py)
    body_crc INTEGER NOT NULL, -- of id, body
    input_bytes INTEGER NOT NULL,
    items BLOB NOT NULL, -- input and output items, packed
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX node_by_id ON node (tenant, id);

-- What a session (conversation) is: its last response, and who may write in it. last_fence never goes back.
CREATE TABLE session (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    head_id TEXT,
    last_fence INTEGER NOT NULL,
    holder TEXT NOT NULL,
    lease_expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX session_by_head ON session (tenant, head_id) WHERE head_id IS NOT NULL;
