"""Opening, closing, surviving: on every backend, and on the wrapper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store import testing
from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.wrappers.faulty import FaultyBackend
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.redis_servers import backend_at, redis_server, shared_cluster, shared_redis

BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "memory": lambda _folder: MemoryBackend(ManualClock()),
    "sqlite": lambda folder: SqliteBackend(folder / "store.db", clock=ManualClock()),
    "postgres": lambda _folder: PostgresBackend(shared_postgres().url, clock=ManualClock()),
    "redis": lambda _folder: backend_at(shared_redis().url),
    "redis cluster": lambda _folder: backend_at(f"{shared_cluster().url}?partition=tenant"),
    "faulty": lambda _folder: FaultyBackend(MemoryBackend(ManualClock())),
}


class TestLifecycle(testing.LifecycleSuite):
    @pytest.fixture(params=BACKENDS)
    def backend(self, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
        return BACKENDS[request.param](tmp_path)


class TestPersistenceOfSqlite(testing.PersistenceSuite):
    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Awaitable[Backend]]:
        clock = ManualClock()

        async def open_again() -> Backend:
            backend = SqliteBackend(tmp_path / "store.db", clock=clock)
            await backend.open()
            return backend

        return open_again


class TestPersistenceOfPostgres(testing.PersistenceSuite):
    @pytest.fixture
    def reopen(self) -> Callable[[], Awaitable[Backend]]:
        clock, schema = ManualClock(), new_schema()

        async def open_again() -> Backend:
            backend = PostgresBackend(shared_postgres().url, database_schema=schema, clock=clock)
            await backend.open()
            return backend

        return open_again


class TestPersistenceOfRedis(testing.PersistenceSuite):
    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], Awaitable[Backend]]]:
        """The server is killed in between, and reads its append-only file."""
        with redis_server() as server:

            async def open_again() -> Backend:
                server.kill()
                server.start()
                backend = backend_at(server.url, durability=Durability.DISK)
                await backend.open()
                return backend

            yield open_again
