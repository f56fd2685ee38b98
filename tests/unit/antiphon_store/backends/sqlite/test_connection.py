from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.rows.backend import Durability


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("durability", "synchronous"), [(Durability.DISK, 2), (Durability.PROCESS, 1)])
def test_durability_sets_the_synchronous_pragma(path: Path, durability: Durability, synchronous: int) -> None:
    connection = connect(path, durability)
    assert pragma(connection, "synchronous") == synchronous
    assert pragma(connection, "journal_mode") == "wal"
    connection.close()


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    connection = connect(path, Durability.PROCESS)
    connection.execute("CREATE TABLE one (a)")
    connection.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_opening_a_new_file_waits_for_a_concurrent_writer(path: Path) -> None:
    """Changing the journal mode fails at once while another connection writes, so the change is retried."""
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


def test_opening_a_new_file_fails_after_the_busy_timeout(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.sqlite.connection.BUSY_TIMEOUT_S", 0.02)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE busy (a)")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connect(path, Durability.PROCESS)
    other.close()
