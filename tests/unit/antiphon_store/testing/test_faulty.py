from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from antiphon_core.errors import AlreadyExists, ResponseNotFound, StoreUnavailable, Timeout
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS, operation_of
from antiphon_store.testing.faulty import Fault, FaultyStore, When
from antiphon_store.testing.subject import draft


@pytest.fixture
async def store() -> AsyncIterator[FaultyStore]:
    store = FaultyStore(StoreService(MemoryRows()))
    await store.open()
    yield store
    await store.close()


async def test_a_fault_before_the_operation_prevents_it(store: FaultyStore) -> None:
    record = draft()
    store.plan(Fault("put", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await store.put("t", record)
    with pytest.raises(ResponseNotFound):
        await store.get("t", record.id)


async def test_a_fault_after_the_operation_hides_its_answer(store: FaultyStore) -> None:
    record = draft()
    store.plan(Fault("put", When.AFTER, error=Timeout))
    with pytest.raises(Timeout):
        await store.put("t", record)
    assert (await store.get("t", record.id)).id == record.id


async def test_a_fault_with_only_a_delay_delays_the_operation(store: FaultyStore) -> None:
    store.plan(Fault("*", When.BEFORE, error=None, delay_s=0.02))
    started = time.monotonic()
    await store.put("t", draft())
    assert time.monotonic() - started >= 0.02


async def test_healing_cancels_planned_faults(store: FaultyStore) -> None:
    store.plan(Fault("*", When.BEFORE))
    store.heal()
    await store.put("t", draft())


async def test_faults_wait_for_their_operation_and_come_in_order(store: FaultyStore) -> None:
    record = draft()
    store.plan(Fault("get", When.BEFORE), Fault("put", When.BEFORE, error=AlreadyExists))
    await store.put("t", record)
    with pytest.raises(StoreUnavailable):
        await store.get("t", record.id)
    with pytest.raises(AlreadyExists):
        await store.put("t", record)
    await store.put("t", record)


@pytest.mark.parametrize("call", CALLS)
async def test_a_planned_fault_breaks_its_operation(store: FaultyStore, call: str) -> None:
    store.plan(Fault(operation_of(call), When.BEFORE, error=Timeout))
    with pytest.raises(Timeout):
        await CALLS[call](store)
