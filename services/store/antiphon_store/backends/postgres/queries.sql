-- Every statement of the PostgreSQL backend, by name. Tables and functions: migrations/*.sql. :now_ms is NULL for the
-- server's own clock. A place is branch * 16777216 + depth, so `place & 16777215` is the depth.

-- name: ready
-- Whether the tables are there, and can be written.
SELECT current_setting('transaction_read_only') = 'on', EXISTS (SELECT FROM node LIMIT 1);

-- name: read_node
SELECT id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms, items_crc,
    body_crc, input_bytes, items, body
FROM node
WHERE tenant = %(tenant)s AND id = %(id)s AND NOT deleted
    AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)));

-- name: chain
-- A response and its ancestors, in no order, each behind the number of responses and their bytes. No row when it may
-- not be seen; one without an id when they are more than the limits. The recursion makes one range of places per branch
-- on the way to the root. An item array's length is that of its elements and two brackets.
WITH RECURSIVE tip AS MATERIALIZED (
    SELECT place, (place & 16777215) + 1 AS depth
    FROM node
    WHERE tenant = %(tenant)s AND id = %(id)s AND NOT deleted
        AND (expires_at_ms IS NULL OR expires_at_ms > (SELECT now_ms_v1(%(now_ms)s)))
), segment (first, last) AS (
    SELECT place & ~16777215::bigint, place FROM tip WHERE depth <= %(max_depth)s
    UNION ALL
    SELECT forked_at & ~16777215::bigint, forked_at
    FROM segment JOIN branch ON branch.id = first >> 24
    WHERE forked_at IS NOT NULL
), whole AS MATERIALIZED (
    SELECT coalesce(sum(octet_length(body) + octet_length(items) + 4
        - (input_bytes > 0 AND input_bytes < octet_length(items))::int), 0)::bigint AS bytes
    FROM segment JOIN node ON place BETWEEN first AND last
)
SELECT tip.depth, whole.bytes, each.id, parent_id, session_id, status, version, each.place, created_at_ms,
    updated_at_ms, expires_at_ms, items_crc, body_crc, input_bytes, items, body
FROM tip CROSS JOIN whole
LEFT JOIN (
    SELECT node.* FROM segment JOIN node ON place BETWEEN first AND last
) AS each ON whole.bytes <= %(max_bytes)s;

-- name: remove
SELECT (answer).*
FROM remove_v2(
    %(now_ms)s, %(tenant)s, %(id)s, %(expected_version)s, %(statuses)s, %(unless_statuses)s,
    %(fence_session)s, %(fence_token)s
) AS answer;

-- name: acquire_lease
SELECT token, expires_at_ms
FROM acquire_lease_v1(%(now_ms)s, %(tenant)s, %(session_id)s, %(holder)s, %(ttl_ms)s);

-- name: renew_lease
UPDATE session SET lease_expires_at_ms = greatest(lease_expires_at_ms, now_ms_v1(%(now_ms)s) + %(ttl_ms)s)
WHERE tenant = %(tenant)s AND id = %(session_id)s AND is_held_v1(session, %(token)s, now_ms_v1(%(now_ms)s))
RETURNING holder, lease_expires_at_ms;

-- name: release_lease
UPDATE session SET holder = '', lease_expires_at_ms = 0
WHERE tenant = %(tenant)s AND id = %(session_id)s AND is_held_v1(session, %(token)s, now_ms_v1(%(now_ms)s))
RETURNING id;

-- name: describe_session
-- The head that a turn would continue: none when its time is over.
SELECT (
        SELECT node.id FROM node
        WHERE node.tenant = session.tenant AND node.id = head_id AND (expires_at_ms IS NULL OR expires_at_ms > now_ms)
    ), last_fence, is_held_v1(session, last_fence, now_ms), holder, lease_expires_at_ms
FROM now_ms_v1(%(now_ms)s) AS now_ms
CROSS JOIN session
WHERE session.tenant = %(tenant)s AND session.id = %(session_id)s;

-- name: server_facts
-- What the server is and promises.
SELECT current_setting('server_version_num')::int, current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('synchronous_standby_names');

-- name: configure_session
-- What every connection of the store is set to. Each statement of the store is a walk over indexes with few rows, which
-- the planner cannot know of a table without statistics: it must not scan, compile or plan for each value.
SELECT set_config('search_path', %(schema)s, false), set_config('synchronous_commit', %(synchronous_commit)s, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('statement_timeout', %(statement_timeout)s, false), set_config('lock_timeout', %(lock_timeout)s, false),
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false);

-- name: find_schema_version
-- NULL when the store was never here.
SELECT to_regclass(%(table)s)::text;

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
