-- Fields are JSON as bytes.

-- The partitions, numbered in the order of their first writes, so that rows that are written at the same time lie
-- together: names of trees are random.
CREATE TABLE tree (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    tag TEXT NOT NULL
);
CREATE UNIQUE INDEX tree_by_tag ON tree (tenant, tag);

-- Rows of kind "node". A branch is a line of nodes without forks: the first child of its last node extends it, every
-- other child begins a branch of its own. A place is branch * 2^24 + depth, so a chain is one range of the table for each
-- branch, and items can be read without the bodies, which come last.
CREATE TABLE node (
    place INTEGER PRIMARY KEY,
    tree INTEGER NOT NULL,
    id TEXT NOT NULL,
    fields BLOB NOT NULL,
    items BLOB NOT NULL,
    body BLOB NOT NULL,
    depth INTEGER GENERATED ALWAYS AS (place & 16777215) VIRTUAL,
    created INTEGER GENERATED ALWAYS AS (json_extract(CAST(fields AS TEXT), '$.created')) VIRTUAL
);
CREATE UNIQUE INDEX node_by_id ON node (tree, id);
-- Trees are listed by depth, their leaves by creation time (the indexes LEVEL and CREATED of rows/model.py).
CREATE INDEX node_by_level ON node (tree, depth, created, id);
CREATE INDEX node_by_time ON node (tree, created, id);

-- Rows of all other kinds.
CREATE TABLE row (
    place INTEGER PRIMARY KEY,
    tree INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    fields BLOB NOT NULL,
    items BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX row_by_id ON row (tree, kind, id);

-- Entries of indexes. The scope of an index is the number of its tree, or the name of its tenant.
CREATE TABLE entry (
    scope NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    tree INTEGER NOT NULL, -- that it was filed in, which for one id is always the same
    PRIMARY KEY (scope, name, key, at, id)
) WITHOUT ROWID;
-- For long lists of a tenant, whose entries are found by id. With all entries in it a turn would write 3 pages more.
CREATE UNIQUE INDEX entry_by_id ON entry (tree, name, key, id) WHERE name IN ('ends', 'queue', 'holder');
