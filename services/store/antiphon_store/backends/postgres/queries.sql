-- The statements about the server and the schema's version, by name. Those of the rows: row_queries.sql.

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
