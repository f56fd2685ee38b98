"""Every suite of the kit on every implementation of the store: `test_suites.py::TestLease::test_...[redis]`.

A class is made here for each suite in the rows of topics. An implementation is opened once and shared by all tests:
each test has its own tenant, and a test that sets the shared clock back sets it forward again. Nightly runs repeat more
(`AMOUNTS`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from antiphon_core.clock import ManualClock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing import (
    EventLogAppendSuite,
    JobLeaseSuite,
    LifecycleSuite,
    LineageRaceSuite,
    LinearizabilitySuite,
    PersistenceSuite,
    RaceSuite,
    Subject,
    SweepSuite,
)
from antiphon_store.testing.topics import TOPICS, Suite
from tests.contract.store.conftest import SETTINGS, TOPIC_OF, elapse, open_pair, serve
from tests.contract.store.implementations import BACKENDS, Implementation
from tests.support.volume import volume

pytestmark = pytest.mark.asyncio(loop_scope="module")

ELSEWHERE = (LifecycleSuite, PersistenceSuite)  # they open and close: test_lifecycle.py

NIGHTLY: dict[Suite, dict[str, int]] = {
    EventLogAppendSuite: {"rounds": 25},
    JobLeaseSuite: {"rounds": 25},
    LinearizabilitySuite: {"steps": 50, "rounds": 10},
    LineageRaceSuite: {"rounds": 25, "parents": 14, "children": 64},
    RaceSuite: {"rounds": 25},
    SweepSuite: {"rows": 300},
}
AMOUNTS: dict[Suite, dict[str, int]] = volume({}, NIGHTLY)  # by day the amounts of the suites

for _suites in TOPICS.values():
    for _suite in (each for each in _suites if each not in ELSEWHERE):
        _name = f"Test{_suite.__name__.removesuffix('Suite')}"
        _members = {"__doc__": _suite.__doc__, "__module__": __name__} | AMOUNTS.get(_suite, {})
        globals()[_name] = type(_name, (_suite,), _members)


@pytest.mark.parametrize("suite", TOPIC_OF)
async def test_every_amount_of_a_suite_is_larger_at_night(suite: Suite) -> None:
    own = {name: amount for name, amount in vars(suite).items() if isinstance(amount, int)}
    nightly = NIGHTLY.get(suite, {})
    assert nightly.keys() == own.keys()
    assert all(nightly[name] > amount for name, amount in own.items())


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened implementation."""

    rows: RowBackend
    store: ResponseStore
    peer: ResponseStore
    elapse: Callable[[int], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(implementation: Implementation, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Opened]:
    clock, folder = ManualClock(), tmp_path_factory.mktemp("store")
    async with AsyncExitStack() as stack:
        pair = BACKENDS[implementation.backend].open_pair(clock, folder)
        backends = await open_pair(stack, pair)
        services = [StoreService(backend, SETTINGS) for backend in backends]
        stores = [await serve(stack, each) for each in services] if implementation.over_grpc else services
        yield Opened(backends[0], stores[0], stores[1], elapse(clock))


@pytest.fixture
def subject(opened: Opened) -> Subject:
    return Subject(store=opened.store, peer=opened.peer, elapse=opened.elapse)


@pytest.fixture(name="rows")
def opened_rows(opened: Opened) -> RowBackend:
    return opened.rows


@pytest.fixture(name="elapse")
def time_passing(opened: Opened) -> Callable[[int], Awaitable[None]]:
    return opened.elapse
