"""SQLite, PostgreSQL and Redis against memory: any sequence of operations has the same answers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_core.clock import Clock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.backends.base import Durability
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.model import machine
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.redis_servers import NO_FILES, backend_at, redis_server


@asynccontextmanager
async def open_sqlite(clock: Clock) -> AsyncIterator[ResponseStore]:
    with TemporaryDirectory() as folder:
        backend = SqliteBackend(Path(folder) / "store.db", durability=Durability.PROCESS, clock=clock)
        await backend.open()
        yield StoreService(backend)
        await backend.close()


@asynccontextmanager
async def open_postgres(clock: Clock) -> AsyncIterator[ResponseStore]:
    url = shared_postgres().url
    backend = PostgresBackend(url, durability=Durability.PROCESS, database_schema=new_schema(), clock=clock)
    await backend.open()
    yield StoreService(backend)
    await backend.close()


@asynccontextmanager
async def open_redis(clock: Clock) -> AsyncIterator[ResponseStore]:
    with redis_server(NO_FILES) as server:
        backend = backend_at(server.url, clock=clock)
        await backend.open()
        yield StoreService(backend)
        await backend.close()


TestSqliteAgainstMemory = machine(open_sqlite).TestCase
TestPostgresAgainstMemory = machine(open_postgres).TestCase
TestRedisAgainstMemory = machine(open_redis).TestCase
