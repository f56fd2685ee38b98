-- The statements of maintenance.py.

-- name: partitions
SELECT tenant, tag FROM tree
WHERE (tenant, tag) > (:after_0, :after_1) AND tenant <= :tenants_end AND (
    EXISTS (SELECT 1 FROM node WHERE node.tree = number) OR EXISTS (SELECT 1 FROM row WHERE row.tree = number)
)
ORDER BY tenant, tag LIMIT :limit;

-- name: names
SELECT 'node', id, length(fields) + length(items) + length(body)
FROM tree JOIN node ON node.tree = number WHERE tenant = :tenant AND tag = :tree
UNION ALL
SELECT kind, id, length(fields) + length(items) + length(body)
FROM tree JOIN row ON row.tree = number WHERE tenant = :tenant AND tag = :tree;

-- name: index_keys
SELECT * FROM (
    SELECT DISTINCT '' AS tag, name, key FROM entry
    WHERE :after_0 = '' AND scope = :tenant AND (name, key) > (:after_1, :after_2)
    ORDER BY name, key LIMIT :limit
)
UNION ALL
SELECT * FROM (
    SELECT DISTINCT tag, name, key FROM tree CROSS JOIN entry ON scope = number
    WHERE tenant = :tenant AND tag >= :after_0 AND (tag, name, key) > (:after_0, :after_1, :after_2)
    ORDER BY tag, name, key LIMIT :limit
)
ORDER BY tag, name, key LIMIT :limit;

-- name: erase
-- The rows of a tree, and the entries of its own indexes.
DELETE FROM entry WHERE scope = (SELECT number FROM tree WHERE tenant = :tenant AND tag = :tree);
DELETE FROM node WHERE tree = (SELECT number FROM tree WHERE tenant = :tenant AND tag = :tree);
DELETE FROM row WHERE tree = (SELECT number FROM tree WHERE tenant = :tenant AND tag = :tree);

-- name: erase_entries
-- Entries of the tenant's indexes and, after the last of them, its trees.
DELETE FROM entry WHERE (scope, name, key, at, id) IN (
    SELECT scope, name, key, at, id FROM entry WHERE scope = :tenant LIMIT :limit
);
DELETE FROM tree WHERE tenant = :tenant AND NOT EXISTS (SELECT 1 FROM entry WHERE scope = :tenant);
