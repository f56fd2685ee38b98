"""Rows in one file: one thread that writes, a few that read."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_core.jsons import dumps, loads
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.sqlite import index_entries, programs
from antiphon_store.backends.sqlite.batches import Atom, Refusal
from antiphon_store.backends.sqlite.connection import VERSION_MIN, connect
from antiphon_store.backends.sqlite.faults import no_room, translate
from antiphon_store.backends.sqlite.maintenance import SqliteMaintenance
from antiphon_store.backends.sqlite.programs import TreeRows
from antiphon_store.backends.sqlite.readers import Readers
from antiphon_store.backends.sqlite.reserve import Reserve, Room
from antiphon_store.backends.sqlite.schema import prepare
from antiphon_store.backends.sqlite.writer import Writer
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.decision import Decision
from antiphon_store.rows.local import decide
from antiphon_store.rows.model import (
    VOLATILE_TREES,
    Applied,
    Entry,
    Index,
    Outcome,
    Partition,
    Program,
    Row,
    brings_rows,
    named_node,
)

READERS = 2  # Python runs one thread at a time; the second reads while the first waits for the disk

_SUBTREE = """
    WITH RECURSIVE below (id, fields, level) AS (
        SELECT node.id, fields, 0 FROM json_each(?2) CROSS JOIN node ON tree = ?1 AND node.id = value
        UNION ALL
        SELECT node.id, node.fields, level + 1
        FROM below
        CROSS JOIN entry ON entry.scope = ?1 AND name = 'children' AND key = below.id
        CROSS JOIN node ON node.tree = ?1 AND node.id = entry.id
        WHERE level < ?3
    )
    SELECT id, fields FROM below LIMIT ?4
"""
_NODE = "SELECT fields, items, body FROM node WHERE tree = ? AND id = ?"
_ANY_LEVELS = 2**31

_Answer = TypeVar("_Answer")


class SqliteRows:
    """Implements `rows.backend.RowBackend`. Several processes of one machine may open the same file; their writes take
    turns. Volatile programs stay in the process."""

    def __init__(self, path: Path, *, durability: Durability = Durability.DISK, clock: Clock | None = None) -> None:
        if durability not in (Durability.DISK, Durability.PROCESS):
            raise SettingsError(f"SQLite's durability is 'disk' or 'process', not '{durability}'.")
        self.durability = durability
        self._path = path
        self._clock = clock or SystemClock()
        self._reserve = Reserve(path)
        self._volatile = MemoryRows(self._clock)
        self._writer: Writer | None = None
        self._readers: Readers | None = None
        self.maintenance = SqliteMaintenance(path, self._read, self._write)

    async def open(self) -> None:
        try:
            writing, reading = await asyncio.to_thread(self._connect)
        except sqlite3.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StoreUnavailable(f"The store's file cannot be made: {error.strerror}.") from error
        self._writer, self._readers = Writer(writing, self._reserve), Readers(reading)
        await self._volatile.open()

    async def close(self) -> None:
        await self._volatile.close()
        if self._writer is not None and self._readers is not None:
            await self._writer.close()
            await self._readers.close()
            self._reserve.take_away()

    async def ready(self) -> None:
        def read(connection: sqlite3.Connection) -> bool:
            connection.execute("SELECT 1 FROM node LIMIT 1").fetchone()
            return self._reserve.has_room_on_disk()

        if not await self._read(read):
            await self._write(_nothing)  # the writer looks
            if self._reserve.room is Room.NONE:
                raise no_room()

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        if program.is_volatile:
            return await self._volatile.transact(partition, program)
        if program.changes:
            return await self._write(lambda connection: self._run(connection, partition, program))
        if program.guards or program.reads:
            return await self._read(lambda connection: self._run(connection, partition, program))
        await self._volatile.ready()
        return Applied(self._clock.now_ms(), ())

    def decide(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool) -> Awaitable[_Answer]:
        if partition.tree in VOLATILE_TREES:
            return self._volatile.decide(partition, decision, only_reads=only_reads)

        def primitive(connection: sqlite3.Connection) -> _Answer | Refusal:
            changes = connection.total_changes
            rows = TreeRows if self._reserve.room is not Room.NONE else _FullTreeRows
            try:
                return decide(rows(connection, partition, self._clock.now_ms()), decision)
            except Exception as error:
                if isinstance(error, sqlite3.Error) or connection.total_changes != changes:
                    raise  # and nothing of it stays
                return Refusal(error)

        return (self._read if only_reads else self._write)(primitive)

    async def page(
        self,
        partition: Partition,
        index: Index,
        key: str,
        *,
        after: tuple[int, str] | None,
        limit: int,
        descending: bool = False,
        with_rows: bool = False,
    ) -> tuple[int, Sequence[Entry]]:
        find = partial(index_entries.page, after=after, limit=limit, descending=descending)

        def read(connection: sqlite3.Connection) -> tuple[int, Sequence[Entry]]:
            entries = find(connection, partition, index, key)
            if with_rows:
                tree = index_entries.number_of(connection, partition)
                entries = [each._replace(row=_node_of(connection, tree, each)) for each in entries]
            return self._clock.now_ms(), entries

        return await self._read(read)

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int, levels: int | None = None
    ) -> tuple[int, Sequence[Entry]]:
        bounds = (dumps(starts).decode(), _ANY_LEVELS if levels is None else levels, max_nodes)

        def read(connection: sqlite3.Connection) -> tuple[int, Sequence[Entry]]:
            tree = index_entries.number_of(connection, partition)
            found = connection.execute(_SUBTREE, (tree, *bounds)).fetchall()
            return self._clock.now_ms(), [Entry(node_id, 0, Row(loads(fields))) for node_id, fields in found]

        return await self._read(read)

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        take = partial(index_entries.take_due, limit=limit, hide_ms=hide_ms)
        return await self._write(lambda connection: take(connection, tenant, index, key, now_ms=self._clock.now_ms()))

    async def tenants(self) -> Sequence[str]:
        return await self._read(index_entries.tenants)

    # ---- Within a primitive ----

    def _run(self, connection: sqlite3.Connection, partition: Partition, program: Program) -> Outcome:
        if self._reserve.room is Room.NONE and brings_rows(program):
            raise no_room()
        return programs.run(connection, partition, program, self._clock.now_ms())

    def _write(self, primitive: Atom[_Answer]) -> Awaitable[_Answer]:
        if self._writer is None:
            raise StoreUnavailable("The store is not open.")
        return self._writer.run(primitive)

    def _read(self, primitive: Atom[_Answer]) -> Awaitable[_Answer]:
        if self._readers is None:
            raise StoreUnavailable("The store is not open.")
        return self._readers.run(primitive)

    def _connect(self) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
        """The writing connection, with the schema up to date, and the reading ones."""
        if sqlite3.sqlite_version_info < VERSION_MIN:
            needed = ".".join(map(str, VERSION_MIN))
            raise StoreUnavailable(f"SQLite {needed} or newer is needed; this is {sqlite3.sqlite_version}.")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._reserve.lend()  # a file on a full disk can be opened, too
        with ExitStack() as opened:
            writing = opened.enter_context(closing(connect(self._path, self.durability)))
            prepare(writing)
            reading = [opened.enter_context(closing(connect(self._path, self.durability))) for _ in range(READERS)]
            opened.pop_all()
        self._reserve.prepare(writing)
        return writing, reading


class _FullTreeRows(TreeRows):
    """Rows of a database without room for more."""

    __slots__ = ()

    def apply(self, program: Program) -> list[Any]:
        if brings_rows(program):
            raise no_room()
        return super().apply(program)


def _nothing(_connection: sqlite3.Connection) -> None:
    """An atom that changes nothing."""


def _node_of(connection: sqlite3.Connection, tree: int, entry: Entry) -> Row | None:
    """The node that an entry names, with all payloads."""
    found = connection.execute(_NODE, (tree, named_node(entry.id))).fetchone()
    return Row(loads(found[0]), *found[1:]) if found is not None else None
