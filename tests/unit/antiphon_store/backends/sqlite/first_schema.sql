-- Fields are JSON as bytes. A partition is a tenant and a tree.

-- A line of nodes without forks. The first child of a line's last node extends it; every other child of any of its
-- nodes begins a branch of its own.
CREATE TABLE branch (
    id INTEGER PRIMARY KEY,
    forked_at INTEGER -- the place of the node that the branch's first one continues; NULL for a root
);

-- Rows of kind "node". A place is branch * 2^24 + depth, so a chain is one range of the table for each branch, and items
-- can be read without the bodies, which come last.
CREATE TABLE node (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    tree TEXT NOT NULL,
    id TEXT NOT NULL,
    fields BLOB NOT NULL,
    items BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX node_by_id ON node (tenant, tree, id);

-- Rows of all other kinds.
CREATE TABLE row (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    tree TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    fields BLOB NOT NULL,
    items BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX row_by_id ON row (tenant, tree, kind, id);

-- Lines of indexes; `tree` is '' for an index of the whole tenant. Only long lists of a tenant are found by id: a second
-- index of all entries would make a turn write three pages more.
CREATE TABLE entry (
    tenant TEXT NOT NULL,
    tree TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tenant, tree, name, key, at, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX entry_by_id ON entry (tenant, name, key, id) WHERE name IN ('ends', 'queue', 'holder');
