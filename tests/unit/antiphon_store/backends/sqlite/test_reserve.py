from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite import reserve as reserve_module
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.faults import is_full
from antiphon_store.backends.sqlite.reserve import LOG_PAGES_MAX, RESERVE_BYTES_MAX, Reserve, Room
from antiphon_store.rows.backend import Durability

TAKEN = 1_000_000


class Disk:
    """A disk that gives the reserve at most `bytes_max` bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes_max = 2 * RESERVE_BYTES_MAX
        self.error = errno.ENOSPC
        self._allocate = os.posix_fallocate
        monkeypatch.setattr(os, "posix_fallocate", self.allocate)
        monkeypatch.setattr(reserve_module, "CANARY_S", 0.0)

    def allocate(self, file: int, offset: int, length: int) -> None:
        if offset + length > self.bytes_max:
            raise OSError(self.error, "no room")
        self._allocate(file, offset, length)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def connection(database: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(database, Durability.PROCESS)
    yield connection
    connection.close()


@pytest.fixture
def reserve(disk: Disk, database: Path, connection: sqlite3.Connection) -> Reserve:
    reserve = Reserve(database)
    reserve.prepare(connection)
    return reserve


def held_bytes(database: Path) -> int:
    return database.with_name("store.db-reserve").stat().st_size


def test_preparing_takes_the_reserve_and_limits_the_write_ahead_log(
    reserve: Reserve, database: Path, connection: sqlite3.Connection
) -> None:
    assert (reserve.room, held_bytes(database)) == (Room.ON_DISK, RESERVE_BYTES_MAX)
    pages = connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    assert pages <= LOG_PAGES_MAX
    assert pages * 8192 < RESERVE_BYTES_MAX


def test_a_disk_that_gets_full_is_noticed(reserve: Reserve, disk: Disk, database: Path) -> None:
    assert reserve.has_room_on_disk()
    disk.bytes_max = RESERVE_BYTES_MAX
    assert not reserve.has_room_on_disk()
    assert held_bytes(database) == RESERVE_BYTES_MAX


def test_a_lent_reserve_is_taken_back_after_the_write(
    reserve: Reserve, disk: Disk, database: Path, connection: sqlite3.Connection
) -> None:
    disk.bytes_max = RESERVE_BYTES_MAX
    with reserve.at_hand(connection):
        reserve.lend()
        assert held_bytes(database) == 0
    assert (reserve.room, held_bytes(database)) == (Room.NONE, RESERVE_BYTES_MAX)
    disk.bytes_max *= 2
    with reserve.at_hand(connection):
        pass
    assert reserve.room is Room.ON_DISK


def test_free_pages_are_room_as_long_as_the_reserve_is_whole(
    reserve: Reserve, disk: Disk, connection: sqlite3.Connection
) -> None:
    connection.execute("CREATE TABLE filler (bytes BLOB)")
    for _ in range(RESERVE_BYTES_MAX // TAKEN):
        connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (TAKEN,))
    connection.execute("DELETE FROM filler")
    disk.bytes_max = RESERVE_BYTES_MAX
    with reserve.at_hand(connection):
        assert reserve.room is Room.IN_FREE_PAGES
    rooms = [reserve.room]
    disk.bytes_max = 0
    with reserve.at_hand(connection):
        pass
    assert [*rooms, reserve.room] == [Room.IN_FREE_PAGES, Room.NONE]


def test_a_file_system_without_fallocate_is_assumed_to_have_room(reserve: Reserve, disk: Disk) -> None:
    disk.bytes_max, disk.error = 0, errno.EOPNOTSUPP
    assert reserve.has_room_on_disk()


async def test_the_reserve_file_is_removed_with_its_last_user(database: Path) -> None:
    server, command = SqliteRows(database), SqliteRows(database)
    await server.open()
    await command.open()
    await command.close()
    assert held_bytes(database) == RESERVE_BYTES_MAX
    await server.close()
    assert not database.with_name("store.db-reserve").exists()


def test_only_sqlite_full_errors_count_as_a_full_disk() -> None:
    full, other = sqlite3.OperationalError("full"), sqlite3.OperationalError("locked")
    full.sqlite_errorcode, other.sqlite_errorcode = sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY
    assert (is_full(full), is_full(other), is_full(ValueError())) == (True, False, False)


async def test_an_open_without_its_reserve_closes_the_connections(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []

    def kept(*arguments: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments))
        return opened[-1]

    monkeypatch.setattr("antiphon_store.backends.sqlite.backend.connect", kept)
    monkeypatch.setattr(os, "statvfs", lambda _path: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(StoreUnavailable, match="broken"):
        await SqliteRows(path, durability=Durability.PROCESS).open()
    assert opened
    for each in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")
