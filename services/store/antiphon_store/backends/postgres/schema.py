"""Creates the schema of the database, brings it up to date by migrations, and checks its version.

Replicas of the previous release may run during a migration, so it must not change what they read and write: it adds
tables, indexes, columns with defaults, and functions of new names. A later release drops the parts without users.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from psycopg import errors, sql

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends import sql_views
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection

SCHEMA = "antiphon"
FIRST_VERSION = 2
MIGRATIONS: Sequence[str] = (
    """
    ALTER TABLE stored_row ADD COLUMN created bigint GENERATED ALWAYS AS (
        CASE WHEN place IS NOT NULL THEN (fields::jsonb ->> 'created')::bigint END
    ) STORED;
    CREATE INDEX stored_row_by_level ON stored_row (tenant, tree, (place & 4294967295), created, id)
        WHERE created IS NOT NULL;
    CREATE INDEX stored_row_by_time ON stored_row (tenant, tree, created, id) WHERE created IS NOT NULL;
CREATE OR REPLACE FUNCTION new_place(a_tenant text, a_tree text, a_parent text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    behind bigint; -- the parent's place
    taken bigint;
    newest bigint; -- the place of the last node of the last branch
BEGIN
    IF a_parent IS NOT NULL THEN
        SELECT parent.place, child.place INTO STRICT behind, taken
        FROM (
            SELECT place FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = a_parent LIMIT 1
        ) AS parent
        LEFT JOIN LATERAL (
            SELECT place FROM stored_row WHERE tenant = a_tenant AND tree = a_tree AND place = parent.place + 1 LIMIT 1
        ) AS child ON true;
        IF taken IS NULL THEN
            RETURN behind + 1;
        END IF;
    END IF;
    SELECT place INTO newest FROM stored_row
    WHERE tenant = a_tenant AND tree = a_tree AND place IS NOT NULL ORDER BY place DESC LIMIT 1;
    RETURN (coalesce(newest, 0) | 4294967295) + 1 + coalesce((behind & 4294967295) + 1, 0);
END
$$;
    """,
    sql_views.script(sql_views.POSTGRESQL),
    """
CREATE OR REPLACE FUNCTION chain_rows(a_tenant text, a_tree text, now_ms bigint, chain jsonb, excess boolean)
RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tip AS MATERIALIZED (
        SELECT place, (place & 4294967295) + 1 AS depth
        FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = CASE chain ->> 5
                WHEN 'true' THEN (
                    SELECT fields::jsonb ->> 'head' FROM stored_row
                    WHERE tenant = a_tenant AND tree = a_tree AND kind = 'session' AND id = chain ->> 1
                )
                ELSE chain ->> 1
            END
            AND coalesce((fields::jsonb ->> 'expires')::bigint > now_ms, true)
    ), segment (first, last) AS (
        SELECT place & ~4294967295, place FROM tip WHERE depth <= (chain ->> 3)::bigint
        UNION ALL
        SELECT parent.place & ~4294967295, parent.place
        FROM segment CROSS JOIN LATERAL (
            SELECT fields::jsonb ->> 'parent' AS parent_id FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last ORDER BY place LIMIT 1
        ) AS begun CROSS JOIN LATERAL (
            SELECT place FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = parent_id LIMIT 1
        ) AS parent
    ), whole AS MATERIALIZED (
        SELECT CASE chain ->> 2
            WHEN 'ib' THEN sum(size)
            WHEN '' THEN 0
            ELSE 1 + sum(octet_length(items) + (items <> '')::int)
        END > (chain ->> 4)::bigint AS is_excess
        FROM segment CROSS JOIN LATERAL (
            SELECT size, items FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
        ) AS node
    )
    SELECT (chain ->> 0)::int, place & 4294967295, id, fields, CASE WHEN chain ->> 2 <> '' THEN items ELSE '' END,
        CASE chain ->> 2
            WHEN 'ib' THEN body
            WHEN 'il' THEN coalesce((
                SELECT lineage.items FROM stored_row AS lineage
                WHERE tenant = a_tenant AND tree = a_tree AND kind = 'lineage' AND lineage.id = node.id LIMIT 1
            ), '')
            ELSE ''
        END
    FROM segment CROSS JOIN LATERAL (
        SELECT place, id, fields, items, body FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
    ) AS node
    WHERE NOT excess AND NOT (SELECT is_excess FROM whole)
    UNION ALL
    SELECT -1, now_ms, CASE WHEN is_excess THEN 'bytes' ELSE 'depth' END, NULL, NULL, NULL
    FROM tip CROSS JOIN whole
    WHERE excess AND (is_excess OR depth > (chain ->> 3)::bigint)
$$;
    """,
    """
CREATE FUNCTION chain_lineages(a_tenant text, a_tree text, ids text[]) RETURNS TABLE (at bigint, lineage bytea)
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    used bigint := 0;
BEGIN
    FOR at, lineage IN
        SELECT node.at, items FROM (
            SELECT named.id, named.at FROM unnest(ids) WITH ORDINALITY AS named (id, at) ORDER BY named.at OFFSET 0
        ) AS node CROSS JOIN LATERAL (
            SELECT items FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'lineage' AND stored_row.id = node.id LIMIT 1
        ) AS found
    LOOP
        RETURN NEXT;
        used := used + octet_length(lineage);
        EXIT WHEN used > 81920;
    END LOOP;
    IF at < cardinality(ids) THEN
        at := cardinality(ids);
        SELECT items INTO lineage FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = 'lineage' AND id = ids[cardinality(ids)] LIMIT 1;
        RETURN NEXT;
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION chain_rows(a_tenant text, a_tree text, now_ms bigint, chain jsonb, excess boolean)
RETURNS SETOF answer LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tip AS MATERIALIZED (
        SELECT place, (place & 4294967295) + 1 AS depth
        FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = CASE chain ->> 5
                WHEN 'true' THEN (
                    SELECT fields::jsonb ->> 'head' FROM stored_row
                    WHERE tenant = a_tenant AND tree = a_tree AND kind = 'session' AND id = chain ->> 1
                )
                ELSE chain ->> 1
            END
            AND coalesce((fields::jsonb ->> 'expires')::bigint > now_ms, true)
    ), segment (first, last) AS (
        SELECT place & ~4294967295, place FROM tip WHERE depth <= (chain ->> 3)::bigint
        UNION ALL
        SELECT parent.place & ~4294967295, parent.place
        FROM segment CROSS JOIN LATERAL (
            SELECT fields::jsonb ->> 'parent' AS parent_id FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last ORDER BY place LIMIT 1
        ) AS begun CROSS JOIN LATERAL (
            SELECT place FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND kind = 'node' AND id = parent_id LIMIT 1
        ) AS parent
    ), whole AS MATERIALIZED (
        SELECT CASE chain ->> 2
            WHEN 'ib' THEN sum(size)
            WHEN '' THEN 0
            ELSE 1 + sum(octet_length(items) + (items <> '')::int)
        END > (chain ->> 4)::bigint AS is_excess,
        array_agg(id ORDER BY place & 4294967295) FILTER (WHERE chain ->> 2 = 'il') AS ids
        FROM segment CROSS JOIN LATERAL (
            SELECT id, place, size, items FROM stored_row
            WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
        ) AS node
    ), kept AS MATERIALIZED (
        SELECT at, lineage FROM whole CROSS JOIN LATERAL chain_lineages(a_tenant, a_tree, ids) WHERE NOT is_excess
    )
    SELECT (chain ->> 0)::int, place & 4294967295, id, fields, CASE WHEN chain ->> 2 <> '' THEN items ELSE '' END,
        CASE chain ->> 2
            WHEN 'ib' THEN body
            WHEN 'il' THEN coalesce(lineage, '')
            ELSE ''
        END
    FROM segment CROSS JOIN LATERAL (
        SELECT place, id, fields, items, body FROM stored_row
        WHERE tenant = a_tenant AND tree = a_tree AND place BETWEEN first AND last OFFSET 0
    ) AS node LEFT JOIN kept ON at = (place & 4294967295) + 1
    WHERE NOT excess AND NOT (SELECT is_excess FROM whole)
    UNION ALL
    SELECT -1, now_ms, CASE WHEN is_excess THEN 'bytes' ELSE 'depth' END, NULL, NULL, NULL
    FROM tip CROSS JOIN whole
    WHERE excess AND (is_excess OR depth > (chain ->> 3)::bigint)
$$;
    """,
)
"""One script for each version after FIRST_VERSION. All of them turn the first schema into schema.sql with the views."""
VERSION = FIRST_VERSION + len(MIGRATIONS)
LOCK_KEY = 0x416E7469  # "Anti"


async def migrate(connection: Connection, schema: str = SCHEMA, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Creates the tables or brings them up to date, one replica at a time (under a lock). StoreUnavailable: they are
    those of a newer release."""
    newest = FIRST_VERSION + len(migrations)
    async with connection.transaction():
        await connection.execute(QUERIES["lock_schema"], {"key": LOCK_KEY})
        await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        await connection.execute(QUERIES["make_schema_version"])
        version = await version_of(connection, newest)
        if version == 0:
            script = (files("antiphon_store.backends.postgres") / "schema.sql").read_text(encoding="utf-8")
            await connection.execute(script + sql_views.script(sql_views.POSTGRESQL), prepare=False)
            version = await _note(connection, VERSION, "schema")
        for script in migrations[version - FIRST_VERSION :]:
            await connection.execute(script, prepare=False)
            version = await _note(connection, version + 1, "migration")


async def require_current(connection: Connection) -> None:
    """StoreUnavailable: the schema is not the one that this release works with."""
    version = await version_of(connection)
    if version < VERSION:
        raise StoreUnavailable(
            f"The database has schema version {version}, this release needs {VERSION}: run `antiphon store migrate`."
        )


async def version_of(connection: Connection, newest: int = VERSION) -> int:
    """The version of the schema; 0 if there is none. StoreUnavailable: it is above `newest`, or below the first that
    this release knows."""
    try:
        ((version,),) = await (await connection.execute(QUERIES["read_schema_version"])).fetchall()
    except errors.UndefinedTable:
        return 0
    if version and not FIRST_VERSION <= version <= newest:
        age, advice = (
            ("a newer", "that release") if version > newest else ("an older", "that release, or a new database")
        )
        raise StoreUnavailable(
            f"The database has schema version {version}, made by {age} release; this one knows {FIRST_VERSION} to "
            f"{newest}. Use {advice}."
        )
    return int(version)


async def _note(connection: Connection, version: int, name: str) -> int:
    """Records that the schema has this version now."""
    await connection.execute(QUERIES["note_schema_version"], {"version": version, "name": name})
    return version
