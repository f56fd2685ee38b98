"""What is Redis's alone: the atoms of lineage that it has so far, and trees that are spread over a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store import testing
from antiphon_store.service import StoreService
from antiphon_store.testing import Subject
from tests.contract.store.conftest import SETTINGS, elapse
from tests.support.redis_servers import backend_at, shared_cluster, shared_redis

PLACES = {
    "single": lambda: shared_redis().url,
    "a slot for each tenant": lambda: f"{shared_cluster().url}?partition=tenant",
    "a slot for each tree": lambda: shared_cluster().url,
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def subject(place: str, clock: ManualClock) -> AsyncIterator[Subject]:
    backends = [backend_at(PLACES[place](), clock=clock) for _ in range(2)]
    for backend in backends:
        await backend.open()
    store, peer = (StoreService(backend, SETTINGS) for backend in backends)
    yield Subject(store=store, peer=peer, elapse=elapse(clock))
    for backend in backends:
        await backend.close()


class TestTree(testing.LineageTreeSuite):
    pass


@pytest.mark.parametrize("place", ["single", "a slot for each tenant"])
class TestStatus(testing.LineageStatusSuite):
    """Its sessions have no tag: a fence of theirs does not lie with a tree."""


@pytest.mark.parametrize("place", ["a slot for each tree"])
class TestSpreadRecord(testing.RecordSuite):
    pass


@pytest.mark.parametrize("place", ["a slot for each tree"])
class TestSpreadLineage(testing.LineageSuite):
    pass


@pytest.mark.parametrize("place", ["a slot for each tree"])
class TestSpreadLease(testing.LeaseSuite):
    pass


@pytest.mark.parametrize("place", ["a slot for each tree"])
class TestSpreadEventLog(testing.EventLogSuite):
    pass
