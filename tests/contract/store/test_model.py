"""SQLite against memory: any sequence of operations has the same answers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_core.clock import Clock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.backends.base import Durability
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.model import machine


@asynccontextmanager
async def open_sqlite(clock: Clock) -> AsyncIterator[ResponseStore]:
    with TemporaryDirectory() as folder:
        backend = SqliteBackend(Path(folder) / "store.db", durability=Durability.PROCESS, clock=clock)
        await backend.open()
        yield StoreService(backend)
        await backend.close()


TestSqliteAgainstMemory = machine(open_sqlite).TestCase
