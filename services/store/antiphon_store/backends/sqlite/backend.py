"""The engine: one file, one thread that writes, a few that read."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import (
    Fence,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnRequest,
    TurnStart,
)
from antiphon_core.spending import Accounts
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.sqlite import atoms
from antiphon_store.backends.sqlite.connection import VERSION_MIN, connect, migrate
from antiphon_store.backends.sqlite.conversations import SqliteConversations
from antiphon_store.backends.sqlite.event_log_backend import SqliteEventLogs
from antiphon_store.backends.sqlite.faults import translate
from antiphon_store.backends.sqlite.idempotency import SqliteIdempotency
from antiphon_store.backends.sqlite.job_backend import SqliteJobs
from antiphon_store.backends.sqlite.lineage_backend import SqliteLineage
from antiphon_store.backends.sqlite.readers import Readers
from antiphon_store.backends.sqlite.spending import SqliteSpending
from antiphon_store.backends.sqlite.sweeping import SqliteRetention
from antiphon_store.backends.sqlite.writer import Writer

READERS = 2  # Python runs one thread at a time; the second reads while the first waits for the disk


class SqliteBackend(
    SqliteEventLogs,
    SqliteJobs,
    SqliteRetention,
    SqliteConversations,
    SqliteLineage,
    SqliteIdempotency,
    SqliteSpending,
):
    """Implements `base.Backend`. Several processes of one machine may open the same file; their writes take turns."""

    def __init__(self, path: Path, *, durability: Durability = Durability.DISK, clock: Clock | None = None) -> None:
        if durability not in (Durability.DISK, Durability.PROCESS):
            raise SettingsError(f"SQLite's durability is 'disk' or 'process', not '{durability}'.")
        self.durability = durability
        self._path = path
        self._clock = clock or SystemClock()
        self._accounts = Accounts()
        self._writer: Writer | None = None
        self._readers: Readers | None = None

    async def open(self) -> None:
        try:
            writing, reading = await asyncio.to_thread(self._connect)
        except sqlite3.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StoreUnavailable(f"The store's file cannot be made: {error.strerror}.") from error
        self._writer, self._readers = Writer(writing), Readers(reading)

    async def close(self) -> None:
        if self._writer is not None and self._readers is not None:
            await self._writer.close()
            await self._readers.close()

    async def ready(self) -> None:
        await self._reads.run(lambda connection: connection.execute("SELECT 1 FROM node LIMIT 1").fetchone())

    # ---- Records ----

    async def put(self, tenant: str, write: Write) -> Stamp:
        return await self._writes.run(lambda connection: atoms.put(connection, tenant, write, self._now_ms()))

    async def fetch(self, tenant: str, response_id: str) -> Record:
        return await self._reads.run(lambda connection: atoms.fetch(connection, tenant, response_id, self._now_ms()))

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        await self._writes.run(
            lambda connection: atoms.remove(connection, tenant, response_id, precondition, self._now_ms())
        )

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        bounds = ChainBounds(response_id, max_depth, max_bytes)
        return await self._reads.run(lambda connection: atoms.ancestry(connection, tenant, bounds, self._now_ms()))

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        return await self._writes.run(
            lambda connection: atoms.acquire_lease(
                connection, tenant, session_id, holder=holder, ttl_ms=ttl_ms, now_ms=self._now_ms()
            )
        )

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        return await self._writes.run(
            lambda connection: atoms.renew_lease(connection, tenant, fence, ttl_ms=ttl_ms, now_ms=self._now_ms())
        )

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        return await self._writes.run(lambda connection: atoms.release_lease(connection, tenant, fence, self._now_ms()))

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        return await self._reads.run(
            lambda connection: atoms.describe_session(connection, tenant, session_id, self._now_ms())
        )

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        session_id = request.session_id
        if session_id is None:
            return await self._reads.run(
                lambda connection: atoms.begin_after(connection, tenant, request, self._now_ms())
            )
        return await self._writes.run(
            lambda connection: atoms.begin_in_session(connection, tenant, session_id, request, self._now_ms())
        )

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        return await self._writes.run(
            lambda connection: atoms.commit_turn(connection, tenant, write, fence, self._now_ms())
        )

    # ---- The parts ----

    @property
    def _writes(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable("The store is not open.")
        return self._writer

    @property
    def _reads(self) -> Readers:
        if self._readers is None:
            raise StoreUnavailable("The store is not open.")
        return self._readers

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def _connect(self) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
        """The writing connection, with the schema up to date, and the reading ones."""
        if sqlite3.sqlite_version_info < VERSION_MIN:
            needed = ".".join(map(str, VERSION_MIN))
            raise StoreUnavailable(f"SQLite {needed} or newer is needed; this is {sqlite3.sqlite_version}.")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as opened:
            writing = opened.enter_context(closing(connect(self._path, self.durability)))
            migrate(writing)
            reading = [opened.enter_context(closing(connect(self._path, self.durability))) for _ in range(READERS)]
            opened.pop_all()
        return writing, reading
