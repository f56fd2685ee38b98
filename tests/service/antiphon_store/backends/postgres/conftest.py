"""A schema of its own for each test, on the run's shared server, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from psycopg import AsyncConnection

from antiphon_core.clock import ManualClock
from antiphon_store.backends.postgres import backend as backend_module
from antiphon_store.backends.postgres import connections
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.schema import migrate
from antiphon_store.backends.postgres.server import Connection, configure
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from tests.support.postgres_server import new_schema, shared_postgres


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises timeouts, because a running server answers late on a busy machine."""
    monkeypatch.setattr(connections, "CONNECTION_WAIT_S", 30.0)
    monkeypatch.setattr(connections, "ATOM_TIMEOUT_S", 30.0)
    monkeypatch.setattr(backend_module, "READY_TIMEOUT_S", 30.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def url() -> str:
    return shared_postgres().url


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
async def empty(url: str, schema: str) -> AsyncIterator[Connection]:
    """A connection of a store to a database without tables."""
    connection: Connection = await AsyncConnection.connect(url, autocommit=True)
    await configure(connection, schema=schema, durability=Durability.PROCESS)
    yield connection
    await connection.close()


@pytest.fixture
async def connection(empty: Connection, schema: str) -> Connection:
    """A connection to an empty store."""
    await migrate(empty, schema)
    return empty


@pytest.fixture
async def backend(url: str, schema: str) -> AsyncIterator[StoreService]:
    """An opened store that lives by the server's clock."""
    backend = StoreService(PostgresRows(url, database_schema=schema, durability=Durability.PROCESS))
    await backend.open()
    yield backend
    await backend.close()


@pytest.fixture
async def peer(url: str, schema: str, backend: StoreService) -> AsyncIterator[StoreService]:
    """Another replica of `backend`."""
    peer = StoreService(PostgresRows(url, database_schema=schema, durability=Durability.PROCESS))
    await peer.open()
    yield peer
    await peer.close()


@pytest.fixture
async def timed(url: str, schema: str, clock: ManualClock) -> AsyncIterator[StoreService]:
    """An opened store that lives by `clock`."""
    backend = StoreService(PostgresRows(url, database_schema=schema, durability=Durability.PROCESS, clock=clock))
    await backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def elapse(clock: ManualClock) -> Callable[[int], Awaitable[None]]:
    async def advance(milliseconds: int) -> None:
        clock.advance(milliseconds / 1000)

    return advance


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every statement that goes over the wire from now on."""
    sent: list[object] = []
    execute: Callable[..., Any] = AsyncConnection.execute

    async def counted(connection: Connection, query: object, *arguments: Any, **options: Any) -> Any:
        sent.append(query)
        return await execute(connection, query, *arguments, **options)

    monkeypatch.setattr(AsyncConnection, "execute", counted)
    return sent
