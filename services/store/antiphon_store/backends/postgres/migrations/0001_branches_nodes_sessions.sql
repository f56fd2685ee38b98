-- A branch is a line of responses without forks. The first child of its last response extends it; every other child
-- of any of its responses begins a branch of its own.
CREATE TABLE branch (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    forked_at bigint -- the place of the response that the branch's first one continues; NULL for a root
);
CREATE INDEX branch_by_fork ON branch (forked_at) WHERE forked_at IS NOT NULL;

-- One response. Its place is branch * 2^24 + depth, so a chain is one range of the primary key per branch. What callers
-- chose freely is bytea: text cannot hold every character (NUL), and nothing here sorts or searches it.
CREATE TABLE node (
    place bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    session_id text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    deleted boolean NOT NULL DEFAULT false,
    items_crc bigint NOT NULL, -- of id, input_bytes, items
    body_crc bigint NOT NULL, -- of id, body
    input_bytes bigint NOT NULL,
    items bytea NOT NULL, -- input and output items, packed
    body bytea NOT NULL
);
CREATE UNIQUE INDEX node_by_id ON node (tenant, id);

-- What a session (conversation) is: its last response, and who may write in it. last_fence never goes back.
CREATE TABLE session (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    head_id text COLLATE "C",
    last_fence bigint NOT NULL DEFAULT 0,
    holder bytea NOT NULL DEFAULT '',
    lease_expires_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX session_by_head ON session (tenant, head_id) WHERE head_id IS NOT NULL;
