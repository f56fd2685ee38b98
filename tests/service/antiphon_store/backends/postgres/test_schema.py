from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection, sql

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.schema import FIRST_VERSION, MIGRATIONS, VERSION, migrate, version_of
from antiphon_store.backends.postgres.server import Connection, configure
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Applied, Get, Index, Kind, Partition, Program, Ref, Set, Span, named_node
from tests.support.postgres_server import new_schema

FIRST_SCHEMA = Path(__file__).with_name("first_schema.sql")
MADE_UP = [
    *MIGRATIONS,
    "ALTER TABLE stored_row ADD COLUMN colour text NOT NULL DEFAULT 'red'; CREATE TABLE extra (id bigint);",
]
COLUMNS = """
    SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped ORDER BY 1, 2
"""
INDEXES = (
    "SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"
)
FUNCTIONS = """
    SELECT proname, replace(pg_get_functiondef(oid), current_schema(), '')
    FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY 1, 2
"""


async def schema_of(connection: Connection) -> list[Any]:
    return [await (await connection.execute(each)).fetchall() for each in (COLUMNS, INDEXES, FUNCTIONS)]


@asynccontextmanager
async def first_schema(url: str, name: str) -> AsyncIterator[Connection]:
    """Makes a schema as the first release did."""
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await configure(connection, schema=name, durability=Durability.PROCESS)
        await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        await connection.execute(QUERIES["make_schema_version"])
        await connection.execute(FIRST_SCHEMA.read_bytes(), prepare=False)
        await connection.execute(QUERIES["note_schema_version"], {"version": FIRST_VERSION, "name": "first"})
        yield connection


async def test_migrating_the_first_schema_yields_the_schema_of_a_new_database(connection: Connection, url: str) -> None:
    """A change of schema.sql needs a migration. first_schema.sql stays as it was."""
    name = new_schema()
    async with first_schema(url, name) as old:
        await migrate(old, name)
        assert await version_of(old) == VERSION
        assert await schema_of(old) == await schema_of(connection)


async def test_nodes_of_the_first_schema_and_of_its_replicas_are_listed(url: str) -> None:
    name, partition = new_schema(), Partition("t", "tree")
    insert = """
        INSERT INTO stored_row (tenant, tree, kind, id, place, size, fields)
        VALUES ('t', 'tree', 'node', %s, %s, 1, %s)
    """
    async with first_schema(url, name) as old:
        await old.execute(insert, ["root", 2**32, '{"created":5,"depth":0}'])
        rows = PostgresRows(url, database_schema=name, durability=Durability.PROCESS)
        await rows.open()
        await old.execute(insert, ["late", 2**32 + 1, '{"created":9,"depth":1}'])
        await old.execute(insert, ["early", 2**33 + 1, '{"created":7,"depth":1}'])
        _, found = await rows.page(partition, Index.LEVEL, "", Span(9))
        assert [(named_node(each.id), each.at) for each in found] == [("root", 0), ("early", 1), ("late", 1)]
        await rows.close()


async def test_a_replica_of_the_release_before_goes_on_during_an_upgrade(
    empty: Connection, url: str, schema: str
) -> None:
    partition, ref = Partition("t", "tree"), Ref(Kind.SESSION, "s")
    before = PostgresRows(url, database_schema=schema, durability=Durability.PROCESS)
    await before.open()
    await before.transact(partition, Program(changes=[Set(ref, {"n": 1})]))
    await migrate(empty, schema, MADE_UP)
    assert await version_of(empty, newest=99) == FIRST_VERSION + len(MADE_UP)

    outcome = await before.transact(partition, Program(changes=[Set(ref, {"n": 2})], reads=[Get(ref)]))
    assert isinstance(outcome, Applied)
    assert outcome.answers[0].fields["n"] == 2
    await before.transact(partition, Program(changes=[Set(Ref(Kind.SESSION, "new"), {"n": 3})]))
    rows = await (await empty.execute("SELECT id, colour FROM stored_row ORDER BY id")).fetchall()
    assert rows == [("new", "red"), ("s", "red")]
    await before.close()
    with pytest.raises(StoreUnavailable, match="made by a newer release"):
        await PostgresRows(url, database_schema=schema).open()


async def test_replicas_that_start_together_migrate_once(empty: Connection, url: str, schema: str) -> None:
    await migrate(empty, schema)

    async def start() -> None:
        async with await AsyncConnection.connect(url, autocommit=True) as connection:
            await configure(connection, schema=schema, durability=Durability.PROCESS)
            await migrate(connection, schema, MADE_UP)

    await asyncio.gather(*[start() for _ in range(4)])
    assert await version_of(empty, newest=99) == FIRST_VERSION + len(MADE_UP)


async def test_a_migration_that_fails_leaves_the_database_as_it_was(connection: Connection, schema: str) -> None:
    before = await schema_of(connection)
    with pytest.raises(Exception, match="nowhere"):
        await migrate(connection, schema, [*MADE_UP, "INSERT INTO nowhere VALUES (1)"])
    assert await version_of(connection) == VERSION
    assert await schema_of(connection) == before


async def test_a_replica_that_may_not_migrate_names_the_command_in_its_error(
    connection: Connection, url: str, schema: str
) -> None:
    await connection.execute("DELETE FROM schema_version")
    rows = PostgresRows(url, database_schema=schema, durability=Durability.PROCESS, migrate=False)
    with pytest.raises(StoreUnavailable, match="run `antiphon store migrate`"):
        await rows.open()


async def test_the_schema_of_an_older_release_without_a_migration_is_rejected(
    connection: Connection, url: str, schema: str
) -> None:
    await connection.execute("UPDATE schema_version SET version = %s", [FIRST_VERSION - 1])
    with pytest.raises(StoreUnavailable, match="made by an older release.* or a new database"):
        await PostgresRows(url, database_schema=schema, durability=Durability.PROCESS).open()
