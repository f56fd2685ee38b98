"""Every operation fails after closing, uses rows of its tenant only, and is documented. `tests/contract/store` tests
the behaviour of a store."""

from __future__ import annotations

import inspect
from contextlib import suppress

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, JobDraft
from antiphon_core.ports.retention import Retention
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS, TENANT, operation_of
from antiphon_store.testing.operations import OPERATIONS
from antiphon_store.testing.subject import draft
from tests.support.rows import SpiedRows


@pytest.fixture
def store(rows: SpiedRows) -> StoreService:
    return StoreService(rows)


@pytest.mark.parametrize("call", CALLS)
async def test_every_operation_of_a_closed_store_is_unavailable(store: StoreService, call: str) -> None:
    await store.close()
    with pytest.raises(StoreUnavailable):
        await CALLS[call](store)


async def test_an_operation_touches_its_own_tenant_only(store: StoreService, rows: SpiedRows) -> None:
    for call in CALLS.values():
        with suppress(AntiphonError):  # other tests check the answers
            await call(store)
    await store.enqueue_job(TENANT, JobDraft(draft().id, DISPATCH_QUEUE, b""))
    assert {partition.tenant for partition, _ in rows.programs} == {TENANT, DISPATCH_TENANT}  # the latter for tickets
    assert {operation_of(call) for call in CALLS} <= set(dir(store))


async def test_a_store_is_ready_only_when_its_rows_are_open(clock: ManualClock) -> None:
    rows = row_backend("memory://", clock=clock)
    store = StoreService(rows)
    with pytest.raises(StoreUnavailable):
        await store.ready()
    await rows.open()
    await store.ready()


def test_a_store_has_the_durability_of_its_rows(store: StoreService, rows: SpiedRows) -> None:
    assert store.durability is rows.durability


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_a_docstring(name: str) -> None:
    port = getattr(FullStore, name, getattr(Retention, name, None))
    assert inspect.getdoc(getattr(StoreService, name)) or inspect.getdoc(port)
