-- The statements of maintenance.py.

-- name: partitions
SELECT tenant, tree FROM (
    SELECT * FROM (
        SELECT DISTINCT tenant, tree FROM node
        WHERE (tenant, tree) > (:after_0, :after_1) AND tenant <= :tenants_end
        ORDER BY tenant, tree LIMIT :limit
    )
    UNION
    SELECT * FROM (
        SELECT DISTINCT tenant, tree FROM row
        WHERE (tenant, tree) > (:after_0, :after_1) AND tenant <= :tenants_end
        ORDER BY tenant, tree LIMIT :limit
    )
)
ORDER BY tenant, tree LIMIT :limit;

-- name: names
SELECT 'node', id, length(fields) + length(items) + length(body) FROM node WHERE tenant = :tenant AND tree = :tree
UNION ALL
SELECT kind, id, length(fields) + length(items) + length(body) FROM row WHERE tenant = :tenant AND tree = :tree;

-- name: index_keys
SELECT DISTINCT tree, name, key FROM entry
WHERE tenant = :tenant AND (tree, name, key) > (:after_0, :after_1, :after_2)
ORDER BY tree, name, key LIMIT :limit;

-- name: erase
-- The rows of a tree. Its entries are the tenant's, and go last.
DELETE FROM branch WHERE id IN (SELECT place >> 24 FROM node WHERE tenant = :tenant AND tree = :tree);
DELETE FROM node WHERE tenant = :tenant AND tree = :tree;
DELETE FROM row WHERE tenant = :tenant AND tree = :tree;

-- name: erase_entries
DELETE FROM entry WHERE (tenant, tree, name, key, at, id) IN (
    SELECT tenant, tree, name, key, at, id FROM entry WHERE tenant = :tenant LIMIT :limit
);
