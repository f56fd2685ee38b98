-- The statements of maintenance.py.

-- name: partitions
SELECT DISTINCT tenant, tree FROM stored_row
WHERE (tenant, tree) > (%(after_0)s, %(after_1)s) AND tenant <= %(tenants_end)s
ORDER BY tenant, tree LIMIT %(limit)s;

-- name: names
SELECT kind, id, octet_length(fields) + octet_length(items) + octet_length(body) FROM stored_row
WHERE tenant = %(tenant)s AND tree = %(tree)s;

-- name: index_keys
SELECT DISTINCT tree, index, key FROM entry
WHERE tenant = %(tenant)s AND (tree, index, key) > (%(after_0)s, %(after_1)s, %(after_2)s)
ORDER BY tree, index, key LIMIT %(limit)s;

-- name: erase
-- The rows of a tree, under its lock. erase_entries deletes its entries with those of the tenant.
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s || '/' || %(tree)s, 0))
), gone AS (
    DELETE FROM stored_row USING locked WHERE tenant = %(tenant)s AND tree = %(tree)s RETURNING 1
)
SELECT count(*) FROM gone;

-- name: erase_entries
WITH gone AS (
    DELETE FROM entry WHERE tenant = %(tenant)s AND ctid = ANY(ARRAY(
        SELECT ctid FROM entry WHERE tenant = %(tenant)s LIMIT %(limit)s
    )) RETURNING 1
)
SELECT count(*) FROM gone;
