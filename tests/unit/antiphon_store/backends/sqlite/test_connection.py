from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.base import Durability
from antiphon_store.backends.sqlite.connection import APPLICATION_ID, _migrations, connect, migrate


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("durability", "synchronous"), [(Durability.DISK, 2), (Durability.PROCESS, 1)])
def test_durability_is_how_sqlite_syncs(path: Path, durability: Durability, synchronous: int) -> None:
    connection = connect(path, durability)
    assert pragma(connection, "synchronous") == synchronous
    assert pragma(connection, "journal_mode") == "wal"
    connection.close()


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    connection = connect(path, Durability.PROCESS)
    migrate(connection)
    connection.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_migrating_again_changes_nothing(connection: sqlite3.Connection) -> None:
    before = list(connection.iterdump())
    migrate(connection)
    assert list(connection.iterdump()) == before
    assert pragma(connection, "user_version") == len(_migrations())
    assert pragma(connection, "application_id") == APPLICATION_ID


def test_a_newer_schema_is_refused(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailable, match="version 99, made by a newer release"):
        migrate(connection)
    assert not connection.in_transaction


def test_a_file_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    connection = connect(path, Durability.PROCESS)
    connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreUnavailable, match="another program"):
        migrate(connection)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


def test_a_migration_that_fails_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = ["CREATE TABLE one (a);", "CREATE TABLE two (a);\nCREATE TABLE two (a);"]
    monkeypatch.setattr("antiphon_store.backends.sqlite.connection._migrations", lambda: scripts)
    connection = connect(path, Durability.PROCESS)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()


def test_a_first_opening_waits_for_another(path: Path) -> None:
    """Changing the journal's mode fails at once while somebody writes; it is tried again until they are done."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE busy (a)")
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.05, other.execute, ["COMMIT"])
    release.start()
    connection = connect(path, Durability.PROCESS)
    assert pragma(connection, "journal_mode") == "wal"
    release.join()
    other.close()
    connection.close()


def test_a_first_opening_does_not_wait_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.sqlite.connection.BUSY_TIMEOUT_S", 0.02)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE busy (a)")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connect(path, Durability.PROCESS)
    other.close()
