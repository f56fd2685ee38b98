from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from antiphon_core.errors import AlreadyExists, ResponseNotFound, StoreUnavailable, Timeout
from antiphon_store.opening import open_backend
from antiphon_store.testing.calls import CALLS, atom_of
from antiphon_store.testing.faulty import Fault, FaultyBackend, When
from antiphon_store.testing.subject import draft
from antiphon_store.values import Write


@pytest.fixture
async def backend() -> AsyncIterator[FaultyBackend]:
    backend = FaultyBackend(open_backend("memory://"))
    await backend.open()
    yield backend
    await backend.close()


async def test_a_fault_before_the_atom_prevents_it(backend: FaultyBackend) -> None:
    record = draft()
    backend.plan(Fault("put", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await backend.put("t", Write(record))
    with pytest.raises(ResponseNotFound):
        await backend.fetch("t", record.id)


async def test_a_fault_after_the_atom_hides_it(backend: FaultyBackend) -> None:
    record = draft()
    backend.plan(Fault("put", When.AFTER, error=Timeout))
    with pytest.raises(Timeout):
        await backend.put("t", Write(record))
    assert (await backend.fetch("t", record.id)).id == record.id


async def test_a_slow_atom_answers_late(backend: FaultyBackend) -> None:
    backend.plan(Fault("*", When.BEFORE, error=None, delay_s=0.02))
    started = time.monotonic()
    await backend.put("t", Write(draft()))
    assert time.monotonic() - started >= 0.02


async def test_what_was_planned_can_be_called_off(backend: FaultyBackend) -> None:
    backend.plan(Fault("*", When.BEFORE))
    backend.heal()
    await backend.put("t", Write(draft()))


async def test_faults_wait_for_their_atom_and_come_in_order(backend: FaultyBackend) -> None:
    record = draft()
    backend.plan(Fault("fetch", When.BEFORE), Fault("put", When.BEFORE, error=AlreadyExists))
    await backend.put("t", Write(record))
    with pytest.raises(StoreUnavailable):
        await backend.fetch("t", record.id)
    with pytest.raises(AlreadyExists):
        await backend.put("t", Write(record))
    await backend.put("t", Write(record))


@pytest.mark.parametrize("call", CALLS)
async def test_every_atom_can_break(backend: FaultyBackend, call: str) -> None:
    backend.plan(Fault(atom_of(call), When.BEFORE, error=Timeout))
    with pytest.raises(Timeout):
        await CALLS[call](backend)
