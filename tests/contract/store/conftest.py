"""The backends that the suites of this folder run on, and the two ways to reach a store on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing import Subject
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import backend_at, shared_cluster, shared_redis

SETTINGS = StoreSettings(lease_poll_ms=20)

Pair = tuple[Backend, Backend]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def memory_pair(clock: ManualClock, _folder: Path) -> Pair:
    backend = MemoryBackend(clock)
    return backend, backend


def sqlite_pair(clock: ManualClock, folder: Path) -> Pair:
    """Two backends on one file, as two processes would have them."""
    one, two = (SqliteBackend(folder / "store.db", durability=Durability.PROCESS, clock=clock) for _ in range(2))
    return one, two


def postgres_pair(clock: ManualClock, _folder: Path) -> Pair:
    url = shared_postgres().url
    one, two = (PostgresBackend(url, durability=Durability.PROCESS, clock=clock) for _ in range(2))
    return one, two


def redis_pair(clock: ManualClock, _folder: Path) -> Pair:
    one, two = (backend_at(shared_redis().url, clock=clock) for _ in range(2))
    return one, two


def redis_cluster_pair(clock: ManualClock, _folder: Path) -> Pair:
    """Three masters, each test's tenant on one of them: sessions of any name go with responses of any tree."""
    one, two = (backend_at(f"{shared_cluster().url}?partition=tenant", clock=clock) for _ in range(2))
    return one, two


PAIRS: dict[str, Callable[[ManualClock, Path], Pair]] = {
    "memory": memory_pair,
    "sqlite": sqlite_pair,
    "postgres": postgres_pair,
    "redis": redis_pair,
    "redis cluster": redis_cluster_pair,
}


@pytest.fixture(params=PAIRS)
async def backends(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two backends over the same data, opened."""
    pair = PAIRS[request.param](clock, tmp_path)
    for backend in pair:
        await backend.open()
    yield pair
    for backend in pair:
        await backend.close()


@pytest.fixture
def local(backends: Pair, clock: ManualClock) -> Subject:
    """The service itself, twice."""
    store, peer = (StoreService(backend, SETTINGS) for backend in backends)
    return Subject(store=store, peer=peer, elapse=elapse(clock))


@pytest.fixture
async def remote(backends: Pair, clock: ManualClock) -> AsyncIterator[Subject]:
    """A client of a server, twice: two replicas of the store."""
    async with AsyncExitStack() as stack:
        store, peer = [await serve(stack, StoreService(backend, SETTINGS)) for backend in backends]
        yield Subject(store=store, peer=peer, elapse=elapse(clock))


async def serve(stack: AsyncExitStack, service: StoreService) -> StoreClient:
    """A client of a server of its own, both ended with the stack."""
    server = RpcServer()
    server.add(STORE, handlers(service), ready=service.ready)
    port = await server.start("127.0.0.1", 0)
    stack.push_async_callback(server.drain, 0)
    return await stack.enter_async_context(StoreClient(f"127.0.0.1:{port}"))


def elapse(clock: ManualClock) -> Callable[[int], Awaitable[None]]:
    async def advance(milliseconds: int) -> None:
        clock.advance(milliseconds / 1000)

    return advance
