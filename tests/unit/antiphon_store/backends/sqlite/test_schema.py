from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.backends.sqlite.connection import APPLICATION_ID, connect, statements
from antiphon_store.backends.sqlite.schema import FIRST_VERSION, MIGRATIONS, SCHEMA_VERSION, prepare
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Applied, Get, Index, Kind, Partition, Program, Ref, Set, Span, named_node

FIRST_SCHEMA = Path(__file__).with_name("first_schema.sql")
MADE_UP = [
    *MIGRATIONS,
    "ALTER TABLE row ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';\nCREATE TABLE extra (id INTEGER);\n",
]


@pytest.fixture
def fresh(tmp_path: Path) -> sqlite3.Connection:
    return connect(tmp_path / "rows.db", Durability.PROCESS)


def test_a_new_file_gets_the_tables_once(fresh: sqlite3.Connection) -> None:
    prepare(fresh)
    fresh.execute("INSERT INTO tree (tenant, tag) VALUES ('t', 'tree')")
    prepare(fresh)
    assert fresh.execute("SELECT count(*) FROM tree").fetchone() == (1,)
    assert fresh.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_file_of_another_program_is_refused(fresh: sqlite3.Connection) -> None:
    fresh.execute("CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(StoreUnavailable, match="another program"):
        prepare(fresh)
    assert not fresh.in_transaction


@pytest.mark.parametrize(("version", "age"), [(SCHEMA_VERSION + 1, "a newer"), (FIRST_VERSION - 1, "an older")])
def test_a_file_of_a_version_that_is_not_known_is_refused(fresh: sqlite3.Connection, version: int, age: str) -> None:
    prepare(fresh)
    fresh.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreUnavailable, match=age):
        prepare(fresh)
    assert not fresh.in_transaction


def test_migrating_the_first_schema_yields_the_schema_of_a_new_file(fresh: sqlite3.Connection, tmp_path: Path) -> None:
    """A change of schema.sql needs a migration. first_schema.sql stays as it was."""
    prepare(fresh)
    old = connect(tmp_path / "old.db", Durability.PROCESS)
    for statement in statements(FIRST_SCHEMA.read_text(encoding="utf-8")):
        old.execute(statement)
    old.execute(f"PRAGMA user_version = {FIRST_VERSION}")
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    prepare(old)
    assert old.execute("PRAGMA user_version").fetchone() == fresh.execute("PRAGMA user_version").fetchone()
    assert schema_of(old) == schema_of(fresh)


def schema_of(connection: sqlite3.Connection) -> list[Any]:
    columns = 'SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_master AS m'
    tables = connection.execute(f"{columns} JOIN pragma_table_info(m.name) AS c ORDER BY 1, 2").fetchall()
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name").fetchall()
    return [tables, indexes]


async def test_a_process_of_the_release_before_goes_on_during_an_upgrade(path: Path) -> None:
    partition, ref = Partition("t", "tree"), Ref(Kind.SESSION, "s")
    before = SqliteRows(path, durability=Durability.PROCESS)
    await before.open()
    await before.transact(partition, Program(changes=[Set(ref, {"n": 1})]))

    upgrading = connect(path, Durability.PROCESS)
    prepare(upgrading, MADE_UP)
    prepare(upgrading, MADE_UP)  # a second process of the new release
    assert upgrading.execute("PRAGMA user_version").fetchone() == (FIRST_VERSION + len(MADE_UP),)
    assert upgrading.execute("SELECT colour FROM row").fetchall() == [("red",)]

    outcome = await before.transact(partition, Program(changes=[Set(ref, {"n": 2})], reads=[Get(ref)]))
    assert isinstance(outcome, Applied)
    assert outcome.answers[0].fields["n"] == 2
    await before.transact(partition, Program(changes=[Set(Ref(Kind.SESSION, "new"), {"n": 3})]))
    assert upgrading.execute("SELECT count(*) FROM row WHERE colour = 'red'").fetchone() == (2,)
    await before.close()
    upgrading.close()
    with pytest.raises(StoreUnavailable, match="made by a newer release"):
        await SqliteRows(path).open()


async def test_nodes_of_the_first_schema_and_of_its_processes_are_listed(path: Path) -> None:
    old = connect(path, Durability.PROCESS)
    for statement in statements(FIRST_SCHEMA.read_text(encoding="utf-8")):
        old.execute(statement)
    old.execute(f"PRAGMA user_version = {FIRST_VERSION}")
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute("INSERT INTO tree (tenant, tag) VALUES ('t', 'tree')")
    insert = "INSERT INTO node (place, tree, id, fields, items, body) VALUES (?, 1, ?, ?, x'', x'')"
    old.execute(insert, (2**24, "root", b'{"created":5,"depth":0}'))
    rows = SqliteRows(path, durability=Durability.PROCESS)
    await rows.open()
    old.execute(insert, (2**24 + 1, "late", b'{"created":9,"depth":1}'))
    old.execute(insert, (2**25 + 1, "early", b'{"created":7,"depth":1}'))
    _, found = await rows.page(Partition("t", "tree"), Index.LEVEL, "", Span(9))
    assert [(named_node(each.id), each.at) for each in found] == [("root", 0), ("early", 1), ("late", 1)]
    await rows.close()
    old.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(fresh: sqlite3.Connection) -> None:
    prepare(fresh)
    before = schema_of(fresh)
    with pytest.raises(sqlite3.OperationalError):
        prepare(fresh, [*MADE_UP, "INSERT INTO nowhere VALUES (1);"])
    assert schema_of(fresh) == before
    assert fresh.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
