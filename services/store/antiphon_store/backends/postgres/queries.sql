-- The statements of the PostgreSQL backend, by name. Tables and functions: schema.sql. now_ms is NULL except in tests,
-- so that the server's clock decides.

-- name: server_facts
-- The version of the server, and its settings for durability.
SELECT current_setting('server_version_num')::int, current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('synchronous_standby_names');

-- name: configure_session
-- The settings of every connection. Each statement of the store walks indexes over few rows, which the planner cannot
-- know of a table without statistics: it must not scan tables, compile, or plan for each value.
SELECT set_config('search_path', %(schema)s, false), set_config('synchronous_commit', %(synchronous_commit)s, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('statement_timeout', %(statement_timeout)s, false), set_config('lock_timeout', %(lock_timeout)s, false),
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false);

-- name: lock_schema
SELECT pg_advisory_xact_lock(%(key)s);

-- name: read_schema_version
SELECT coalesce(max(version), 0) FROM schema_version;

-- name: make_schema_version
CREATE TABLE IF NOT EXISTS schema_version (
    version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: note_schema_version
INSERT INTO schema_version (version, name) VALUES (%(version)s, %(name)s);

-- name: fetch_part
-- Programs without changes are read by one statement that is made of such parts, and so in one snapshot. A part of a
-- program: [program, tenant, tree, argument of the function].
SELECT (part ->> 0)::int, number, at, id, fields, items, body
FROM clock_ms(%(now_ms)s) AS now_ms
CROSS JOIN jsonb_array_elements(%(PARTS)s::jsonb) AS part
CROSS JOIN LATERAL FUNCTION;

-- name: fetch_time
SELECT -1, -1, clock_ms(%(now_ms)s), NULL, NULL, NULL, NULL;

-- name: transact
-- Applies a list of programs, each with its tenant and its tree, after all their locks were taken. A line of the answer
-- begins with the number of its program.
SELECT place::int - 1, number, at, id, fields, items, body
FROM take_locks(%(locks)s::jsonb) AS is_locked
CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN is_locked THEN %(programs)s::jsonb END)
    WITH ORDINALITY AS each (program, place)
CROSS JOIN LATERAL transact(program ->> 'tenant', program ->> 'tree', %(now_ms)s, program, %(payloads)s);

-- name: page_forwards
-- Each line has the time. An empty page is one line without an entry.
SELECT now_ms, page.id, at, fields, items, body
FROM clock_ms(%(now_ms)s) AS now_ms
LEFT JOIN (
    SELECT id, at FROM entry
    WHERE tenant = %(tenant)s AND tree = %(tree)s AND index = %(index)s AND key = %(key)s
        AND (at, id) > (%(after_at)s, %(after_id)s)
    ORDER BY at ASC, id ASC LIMIT %(limit)s
) AS page ON true
LEFT JOIN LATERAL (
    SELECT fields, CASE WHEN %(payload)s <> '' THEN items ELSE '' END AS items,
        CASE WHEN %(payload)s <> '' THEN body ELSE '' END AS body
    FROM stored_row
    WHERE %(payload)s IS NOT NULL AND tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node'
        AND id = substring(page.id FROM '[^/]*$')
    LIMIT 1
) AS node ON true
ORDER BY at ASC, page.id ASC;

-- name: page_of_listed
-- A page of an index of all nodes. Each line has the time. An empty page is one line without a node.
SELECT now_ms, page.id, page.depth, page.created, fields, items, body
FROM clock_ms(%(now_ms)s) AS now_ms
LEFT JOIN (
    SELECT id, place & 4294967295 AS depth, created, fields,
        CASE WHEN %(payload)s <> '' THEN items ELSE '' END AS items,
        CASE WHEN %(payload)s <> '' THEN body ELSE '' END AS body
    FROM stored_row
    WHERE tenant = %(tenant)s AND tree = %(tree)s AND created IS NOT NULL AND (COLUMNS) > (AFTER)
    ORDER BY SORTED LIMIT %(limit)s
) AS page ON true;

-- name: children
-- Each line has the time. The parents are sorted before the loop, so that the limit ends it.
SELECT now_ms, found.id, at, fields
FROM clock_ms(%(now_ms)s) AS now_ms LEFT JOIN (
    SELECT named.id, at, fields
    FROM (
        SELECT parent, number FROM unnest(%(parents)s::text[]) WITH ORDINALITY AS given (parent, number)
        ORDER BY number OFFSET 0
    ) AS parents
    CROSS JOIN LATERAL (
        SELECT id, at FROM entry
        WHERE tenant = %(tenant)s AND tree = %(tree)s AND index = 'children' AND key = parent
        ORDER BY at, id LIMIT %(max_nodes)s
    ) AS named
    CROSS JOIN LATERAL (
        SELECT fields FROM stored_row
        WHERE tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node' AND id = named.id LIMIT 1
    ) AS child
    ORDER BY number LIMIT %(max_nodes)s
) AS found ON true;

-- name: links
-- The parents and depths of nodes and of their ancestors down from a depth.
WITH RECURSIVE above (id, parent, depth) AS (
    SELECT id, fields::jsonb ->> 'parent', place & 4294967295 FROM stored_row
    WHERE tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node' AND id = ANY(%(node_ids)s::text[])
    UNION
    SELECT node.id, node.parent, node.depth
    FROM above CROSS JOIN LATERAL (
        SELECT id, fields::jsonb ->> 'parent' AS parent, place & 4294967295 AS depth FROM stored_row
        WHERE tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node' AND id = above.parent LIMIT 1
    ) AS node
    WHERE above.depth > %(depth)s
)
SELECT id, parent, depth FROM above;

-- name: subtree
-- Each line has the time. Without nodes the answer is one line without a node.
WITH RECURSIVE below (id, fields) AS (
    SELECT id, fields FROM stored_row
    WHERE tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node' AND id = ANY(%(starts)s::text[])
    UNION ALL
    SELECT child.id, child.fields
    FROM below
    CROSS JOIN LATERAL (
        SELECT id FROM entry
        WHERE tenant = %(tenant)s AND tree = %(tree)s AND index = 'children' AND key = below.id OFFSET 0
    ) AS named
    CROSS JOIN LATERAL (
        SELECT id, fields FROM stored_row
        WHERE tenant = %(tenant)s AND tree = %(tree)s AND kind = 'node' AND id = named.id LIMIT 1
    ) AS child
)
SELECT now_ms, cut.id, cut.fields
FROM clock_ms(%(now_ms)s) AS now_ms LEFT JOIN (SELECT * FROM below LIMIT %(max_nodes)s) AS cut ON true;

-- name: take_due
WITH due AS MATERIALIZED (
    SELECT place, id, at, now_ms
    FROM clock_ms(%(now_ms)s) AS now_ms, LATERAL (
        SELECT ctid AS place, id, at FROM entry
        WHERE tenant = %(tenant)s AND tree = '' AND index = %(index)s AND key = %(key)s AND at <= now_ms
        ORDER BY at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS entries
)
UPDATE entry SET at = now_ms + %(hide_ms)s
FROM due
WHERE entry.ctid = due.place AND tenant = %(tenant)s AND tree = ''
RETURNING due.id, due.at;

-- name: tenants
-- One lookup in the index for each tenant, from one to the next.
WITH RECURSIVE named (tenant) AS (
    (SELECT tenant FROM entry WHERE tree = '' AND index = 'ends' ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (
        SELECT entry.tenant FROM entry
        WHERE entry.tenant > named.tenant AND tree = '' AND index = 'ends' ORDER BY entry.tenant LIMIT 1
    )
    FROM named WHERE named.tenant IS NOT NULL
)
SELECT tenant FROM named WHERE tenant IS NOT NULL;

-- name: rows_ready
-- Whether the tables are there, and can be written.
SELECT current_setting('transaction_read_only') = 'on', EXISTS (SELECT FROM stored_row LIMIT 1);

-- name: little_memory
SELECT set_config('work_mem', '64kB', true);

-- name: megabyte
SELECT repeat('x', 1000) FROM generate_series(1, 1000);

-- name: held_cursors
SELECT name FROM pg_cursors WHERE is_holdable;

-- name: canary
-- With little_memory it spills more bytes than a part of the reserve has.
SELECT count(*) FROM generate_series(1, 100000);
