"""Fixtures of this folder. They run the suites on the implementations, and print the table of results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing import Subject
from antiphon_store.testing.topics import TOPICS, Suite
from tests.contract.store.implementations import BACKENDS, IMPLEMENTATIONS, Implementation, Pair
from tests.contract.store.table import MODELS, mark
from tests.support.long_backend_timeouts import long_backend_timeouts

SETTINGS = StoreSettings(lease_poll_ms=20)
TOPIC_OF: dict[Suite, str] = {suite: topic for topic, suites in TOPICS.items() for suite in suites}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test of a suite on every implementation that has the suite's topic and lacks nothing that the test
    needs."""
    if metafunc.cls is None or "implementation" not in metafunc.fixturenames:
        return
    suite = suite_of(metafunc.cls)
    names = [
        name for name, each in IMPLEMENTATIONS.items() if each.runs(TOPIC_OF[suite], suite, metafunc.function.__name__)
    ]
    metafunc.parametrize("implementation", names, indirect=True, scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with the field of the table that counts it."""
    for item in items:
        cls = getattr(item, "cls", None)
        callspec = getattr(item, "callspec", None)
        if cls is None:
            continue
        if callspec is not None and "implementation" in callspec.params:
            mark(item, TOPIC_OF[suite_of(cls)], str(callspec.params["implementation"]))
        elif (backend := backend_of_model(cls.__name__)) is not None:
            mark(item, MODELS, backend)


def backend_of_model(name: str) -> str | None:
    """The backend that a test class compares with memory. None if the class compares none."""
    against = "AgainstMemory"
    found = [each for each in BACKENDS if name.startswith(f"Test{title_of(each)}") and name.endswith(against)]
    return max(found, key=len, default=None)


def title_of(backend: str) -> str:
    return backend.title().replace(" ", "")


def suite_of(cls: type) -> Suite:
    """The suite that a test class runs."""
    return next(each for each in cls.__mro__ if each in TOPIC_OF)


@pytest.fixture(scope="module", autouse=True)
def long_timeouts() -> Iterator[None]:
    """Sets long timeouts of backends, because no suite tests timeouts of backends."""
    with long_backend_timeouts():
        yield


@pytest.fixture(scope="module")
def implementation(request: pytest.FixtureRequest) -> Implementation:
    return IMPLEMENTATIONS[request.param]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=BACKENDS)
async def backends(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two backends over the same data, opened for one test."""
    async with AsyncExitStack() as stack:
        yield await open_pair(stack, BACKENDS[request.param].open_pair(clock, tmp_path))


@pytest.fixture
def local(backends: Pair, clock: ManualClock) -> Subject:
    """Two services in this process."""
    store, peer = (StoreService(backend, SETTINGS) for backend in backends)
    return Subject(store=store, peer=peer, elapse=elapse(clock))


@pytest.fixture
async def remote(backends: Pair, clock: ManualClock) -> AsyncIterator[Subject]:
    """Two clients, each with its own server, as two replicas of the store."""
    async with AsyncExitStack() as stack:
        store, peer = [await serve(stack, StoreService(backend, SETTINGS)) for backend in backends]
        yield Subject(store=store, peer=peer, elapse=elapse(clock))


async def open_pair(stack: AsyncExitStack, pair: Pair) -> Pair:
    """Opens both backends. The stack closes them."""
    for backend in pair:
        await backend.open()
        stack.push_async_callback(backend.close)
    return pair


async def serve(stack: AsyncExitStack, service: StoreService) -> StoreClient:
    """A client with its own server. The stack closes both."""
    server = RpcServer()
    server.add(STORE, handlers(service), ready=service.ready)
    port = await server.start("127.0.0.1", 0)
    stack.push_async_callback(server.drain, 0)
    return await stack.enter_async_context(StoreClient(f"127.0.0.1:{port}"))


def elapse(clock: ManualClock) -> Callable[[int], Awaitable[None]]:
    async def advance(milliseconds: int) -> None:
        clock.advance(milliseconds / 1000)

    return advance
