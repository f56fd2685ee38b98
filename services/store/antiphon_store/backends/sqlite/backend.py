"""Rows in one SQLite file, with one connection that writes and READERS that read."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.sqlite import transactions
from antiphon_store.backends.sqlite.connection import VERSION_MIN, connect
from antiphon_store.backends.sqlite.faults import no_room, translate
from antiphon_store.backends.sqlite.maintenance import SqliteMaintenance
from antiphon_store.backends.sqlite.reserve import Reserve, Room
from antiphon_store.backends.sqlite.schema import prepare
from antiphon_store.backends.sqlite.transactions import READS_TOGETHER, WRITES_TOGETHER, Atom, Transactions
from antiphon_store.backends.sqlite.tree_rows import TreeRows, tenants
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.local import LocalBackend
from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import VOLATILE_TREES, Partition, Program, brings_rows

READERS = 2  # Python runs one thread at a time: the second reads while the first waits for the disk

_Answer = TypeVar("_Answer")


class SqliteRows(LocalBackend):
    """Implements `rows.backend.RowBackend`. Several processes of one machine may open the same file; only one of
    them writes at a time. Each process has volatile trees of its own, in its memory."""

    def __init__(self, path: Path, *, durability: Durability = Durability.DISK, clock: Clock | None = None) -> None:
        if durability not in (Durability.DISK, Durability.PROCESS):
            raise SettingsError(f"SQLite's durability is 'disk' or 'process', not '{durability}'.")
        self.durability = durability
        self._path = path
        self._clock = clock or SystemClock()
        self._reserve = Reserve(path)
        self._volatile = MemoryRows(self._clock)
        self._writing: Transactions | None = None
        self._reading: Transactions | None = None
        self.maintenance = SqliteMaintenance(self._read, self._write)

    async def open(self) -> None:
        try:
            writing, reading = await asyncio.to_thread(self._connect)
        except sqlite3.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StoreUnavailable(f"The store's file cannot be created: {error.strerror}.") from error
        self._writing = Transactions([writing], self._reserve.write, together=WRITES_TOGETHER)
        self._reading = Transactions(reading, transactions.read, together=READS_TOGETHER)
        await self._volatile.open()

    async def close(self) -> None:
        await self._volatile.close()
        for each in (self._writing, self._reading):
            if each is not None:
                await each.close()
        if self._writing is not None:
            self._reserve.take_away()

    async def ready(self) -> None:
        def read(connection: sqlite3.Connection) -> bool:
            connection.execute("SELECT 1 FROM node LIMIT 1").fetchone()
            return self._reserve.has_room_on_disk()

        if not await self._read(read):
            await self._write(_nothing)  # checks the disk again
            if self._reserve.room is Room.NONE:
                raise no_room()

    async def tenants(self) -> Sequence[str]:
        return await self._read(tenants)

    def step(
        self, partition: Partition, work: Callable[[LocalRows], _Answer], *, only_reads: bool
    ) -> Awaitable[_Answer]:
        if partition.tree in VOLATILE_TREES:
            return self._volatile.step(partition, work, only_reads=only_reads)
        run = self._read if only_reads else self._write

        def atom(connection: sqlite3.Connection) -> _Answer:
            rows = TreeRows if self._reserve.room is not Room.NONE else _FullTreeRows
            return work(rows(connection, partition, self._clock.now_ms()))

        return run(atom)

    def _write(self, atom: Atom[_Answer]) -> Awaitable[_Answer]:
        return _require_open(self._writing).run(atom)

    def _read(self, atom: Atom[_Answer]) -> Awaitable[_Answer]:
        return _require_open(self._reading).run(atom)

    def _connect(self) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
        """Opens the connection that writes, which brings the schema up to date, and those that read."""
        if sqlite3.sqlite_version_info < VERSION_MIN:
            needed = ".".join(map(str, VERSION_MIN))
            raise StoreUnavailable(f"SQLite {needed} or newer is needed; this is {sqlite3.sqlite_version}.")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._reserve.lend()  # opening a file on a full disk needs space
        with ExitStack() as opened:
            writing = opened.enter_context(closing(connect(self._path, self.durability)))
            prepare(writing)
            reading = [opened.enter_context(closing(connect(self._path, self.durability))) for _ in range(READERS)]
            self._reserve.prepare(writing)
            opened.pop_all()  # no error: the connections stay open
        return writing, reading


class _FullTreeRows(TreeRows):
    """The rows of a tree on a full disk: rejects programs that add rows."""

    __slots__ = ()

    def apply(self, program: Program) -> Sequence[Any]:
        if brings_rows(program):
            raise no_room()
        return super().apply(program)


def _nothing(_connection: sqlite3.Connection) -> None:
    """An atom that changes nothing."""


def _require_open(transactions_: Transactions | None) -> Transactions:
    if transactions_ is None:
        raise StoreUnavailable("The store is not open.")
    return transactions_
