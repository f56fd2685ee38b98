"""The reserve for a full disk: a file of some megabytes that the writer lends to SQLite, so that deletes still work.

SQLite appends every change, a delete too, to its write-ahead log. It never shrinks its file: deleted rows leave free
pages there. So without a reserve a full disk would allow no deletes, and no writes after deletes. A write that finds
the disk full truncates the reserve, runs, moves the log into the database (a checkpoint), and takes the reserve back.
Programs that add rows may do so only while the database has free pages.

The log is moved while it is smaller than the reserve, so that the database has space for its pages on a full disk.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import is_full
from antiphon_store.backends.sqlite.transactions import Atom, Outcomes, roll_back, write, write_alone

RESERVE_BYTES_MAX = 12 * 1024 * 1024  # for the log, which SQLite moves at 8 MiB, and some deletes of 100 KiB
LOG_PAGES_MAX = 1_000  # SQLite's own default
DISK_SHARE = 8  # the reserve takes an eighth of the disk at most
CANARY_S = 1.0  # between two checks of a disk that had space
CHECKPOINT_WAIT_MS = 100  # for readers that use the log

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Room(Enum):
    """The space for new rows."""

    ON_DISK = auto()
    IN_FREE_PAGES = auto()
    NONE = auto()


class Reserve:
    """The reserve of one database file. `room` is as of the last check."""

    def __init__(self, database: Path) -> None:
        self.room = Room.ON_DISK
        self._path = database.with_name(f"{database.name}-reserve")
        self._log = database.with_name(f"{database.name}-wal")
        self._lock = threading.Lock()
        self._size_bytes = 0
        self._seen_s = float("-inf")

    def lend(self) -> None:
        """Truncates the reserve, so that SQLite can use its space."""
        with suppress(OSError):
            os.truncate(self._path, 0)

    def take_away(self) -> None:
        """Removes the reserve if no process uses the database any more: SQLite has removed the log then. While one
        does, the reserve stays, because on a full disk it could not be made again."""
        with suppress(OSError):
            if not self._log.exists():
                self._path.unlink(missing_ok=True)

    def has_room_on_disk(self) -> bool:
        """Whether the disk has space, checked at most once in CANARY_S. If it has none, the next write runs in the
        reserve, and counts free pages."""
        if self.room is Room.ON_DISK and time.monotonic() - self._seen_s >= CANARY_S:
            with self._lock:
                if not self._try_disk():
                    self.room = Room.IN_FREE_PAGES
        return self.room is Room.ON_DISK

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Takes the reserve, and bounds the log of the connection that writes."""
        with self._lock:
            log_pages = self._wanted_bytes() // _pragma(connection, "page_size") // 2
            connection.execute(f"PRAGMA wal_autocheckpoint = {max(1, min(LOG_PAGES_MAX, log_pages))}").fetchall()
            if not self._try_disk():
                self._take_back(connection)

    def write(self, connection: sqlite3.Connection, atoms: Sequence[Atom[Any]]) -> Outcomes:
        """Runs atoms, as `transactions.write` does. On a full disk each runs in a transaction of its own, in the space
        of the reserve if it needs that."""
        outcomes: list[Any] = [None] * len(atoms)
        left = list(range(len(atoms)))
        if self.room is Room.ON_DISK:
            try:
                outcomes = list(write(connection, atoms))
                left = [number for number, outcome in enumerate(outcomes) if _is_full(outcome)]
            except sqlite3.Error as error:
                if not is_full(error):
                    raise
                roll_back(connection)
        if left:
            with self.at_hand(connection):
                for number in left:
                    outcomes[number] = self._write_alone(connection, atoms[number])
        return outcomes

    def _write_alone(self, connection: sqlite3.Connection, atom: Atom[Any]) -> Any:
        outcome = write_alone(connection, atom)
        if not _is_full(outcome):
            return outcome
        self.lend()
        return write_alone(connection, atom)

    @contextmanager
    def at_hand(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A context for transactions that may `lend`. Takes the reserve back after them."""
        with self._lock:
            if self.room is Room.ON_DISK:
                self.room = self._room_in_pages(connection)
            try:
                yield
            finally:
                self._take_back(connection)

    def _take_back(self, connection: sqlite3.Connection) -> None:
        if not _checkpoint(connection):
            self.lend()
            _checkpoint(connection)
        if self._try_disk():
            self.room = Room.ON_DISK
        else:
            is_whole = self._size_bytes > 0
            self.room = self._room_in_pages(connection) if is_whole else Room.NONE

    def _room_in_pages(self, connection: sqlite3.Connection) -> Room:
        free_bytes = _pragma(connection, "freelist_count") * _pragma(connection, "page_size")
        return Room.IN_FREE_PAGES if free_bytes >= self._wanted_bytes() // 4 else Room.NONE

    def _try_disk(self) -> bool:
        """Takes the reserve, and checks for as much space besides. A file system that cannot tell counts as free."""
        self._size_bytes, wanted = 0, self._wanted_bytes()
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            return error.errno not in _NO_SPACE
        try:
            os.posix_fallocate(file, 0, wanted)
            self._size_bytes = wanted
            os.posix_fallocate(file, wanted, wanted)
        except OSError as error:
            return error.errno not in _NO_SPACE
        else:
            self._seen_s = time.monotonic()
            return True
        finally:
            os.ftruncate(file, self._size_bytes)
            os.close(file)

    def _wanted_bytes(self) -> int:
        disk = os.statvfs(self._path.parent)
        return min(RESERVE_BYTES_MAX, disk.f_blocks * disk.f_frsize // DISK_SHARE)


def _is_full(outcome: object) -> bool:
    return isinstance(outcome, StoreUnavailable) and outcome.is_full


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _checkpoint(connection: sqlite3.Connection) -> bool:
    """Moves the log into the database and truncates it, as far as readers and the disk allow. Returns whether the whole
    log was moved."""
    busy_timeout_ms = _pragma(connection, "busy_timeout")
    connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}").fetchall()
    try:
        _is_busy, logged, moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return bool(logged == moved)
    except sqlite3.Error:
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}").fetchall()
