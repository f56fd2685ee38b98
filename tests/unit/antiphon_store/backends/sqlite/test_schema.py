from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.base import Durability
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.schema import SCHEMA_VERSION, prepare


@pytest.fixture
def fresh(tmp_path: Path) -> sqlite3.Connection:
    return connect(tmp_path / "rows.db", Durability.PROCESS)


def test_a_new_file_gets_the_tables_once(fresh: sqlite3.Connection) -> None:
    prepare(fresh)
    fresh.execute("INSERT INTO branch (forked_at) VALUES (NULL)")
    prepare(fresh)
    assert fresh.execute("SELECT count(*) FROM branch").fetchone() == (1,)
    assert fresh.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_file_of_another_program_is_refused(fresh: sqlite3.Connection) -> None:
    fresh.execute("CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(StoreUnavailable, match="another program"):
        prepare(fresh)
    assert not fresh.in_transaction


@pytest.mark.parametrize(("version", "age"), [(SCHEMA_VERSION + 1, "a newer"), (SCHEMA_VERSION - 1, "an older")])
def test_a_file_of_another_version_is_refused(fresh: sqlite3.Connection, version: int, age: str) -> None:
    prepare(fresh)
    fresh.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreUnavailable, match=age):
        prepare(fresh)
