"""A database of its own for each test: a file, and a connection to it with the schema in place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from antiphon_store.backends.sqlite import connection as connection_module
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.schema import prepare
from antiphon_store.rows.backend import Durability

IN_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer for the lock of a database file: on a busy machine another holder releases the lock late."""
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_S", 30.0)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file in memory where the system has /dev/shm, because a flush on a busy disk takes a second."""
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else tmp_path) as folder:
        yield Path(folder) / "store.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(path, Durability.PROCESS)
    prepare(connection)
    yield connection
    connection.close()
