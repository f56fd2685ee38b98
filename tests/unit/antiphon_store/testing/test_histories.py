"""What is recorded, and that the suite notices stores which break what linearizability promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.ports.store import Fence, Record, Stamp
from antiphon_store.backends.base import Write
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from antiphon_store.testing import LinearizabilitySuite, Subject
from antiphon_store.testing.histories import Recorder
from antiphon_store.testing.linearizability import UNKNOWN

KEY = ("response", "r")
SEED = 1  # The search for an order takes a second for some seeds, for this one a moment.


async def answering(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (7, 7),
        (ResponseNotFound.of("r"), "ResponseNotFound"),
        (Timeout("late"), UNKNOWN),
        (StoreUnavailable("gone"), UNKNOWN),
    ],
)
async def test_an_outcome_is_recorded(outcome: object, answer: object) -> None:
    recorder = Recorder()
    assert await recorder.record(KEY, "put", {}, answering(outcome), lambda value: value) == answer
    (operation,) = recorder.operations
    assert (operation.answer, operation.invoked < operation.returned) == (answer, True)


async def test_a_reading_without_an_answer_is_left_out() -> None:
    recorder = Recorder()
    assert await recorder.record(KEY, "get", {}, answering(Timeout("late")), lambda value: value) == UNKNOWN
    assert recorder.operations == []


async def test_moments_tell_what_overlapped() -> None:
    recorder, gate = Recorder(), asyncio.Event()
    slow = asyncio.create_task(recorder.record(KEY, "put", {}, gate.wait(), lambda _: "slow"))
    await asyncio.sleep(0)
    await recorder.record(KEY, "put", {}, answering(1), lambda _: "quick")
    gate.set()
    await slow
    quick, slow_one = recorder.operations
    assert slow_one.invoked < quick.invoked < quick.returned < slow_one.returned


class StaleReads(MemoryBackend):
    """Answers a reading with what was there two readings ago."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._seen: dict[str, list[Record]] = {}

    async def fetch(self, tenant: str, response_id: str) -> Record:
        seen = self._seen.setdefault(response_id, [])
        seen.append(await super().fetch(tenant, response_id))
        return seen[max(0, len(seen) - 3)]


class LosesUpdates(MemoryBackend):
    """Compares versions in one step and writes in another."""

    async def put(self, tenant: str, write: Write) -> Stamp:
        node = self._nodes.get((tenant, write.record.id))
        before = node.record if node else None
        await asyncio.sleep(0)
        if node is not None and before is not None and not node.deleted:
            node.record = before
        return await super().put(tenant, write)


class ReusesTokens(MemoryBackend):
    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        released = await super().release_lease(tenant, fence)
        state = self._sessions.get((tenant, fence.session_id))
        if released and state:
            self._sessions[tenant, fence.session_id] = replace(state, last_fence=state.last_fence - 1)
        return released


class LosesAcknowledgedWrites(MemoryBackend):
    """Now and then."""

    async def put(self, tenant: str, write: Write) -> Stamp:
        before = self._nodes.get((tenant, write.record.id))
        stamp = await super().put(tenant, write)
        if before is None and write.record.body.endswith(b'3"}'):
            del self._nodes[tenant, write.record.id]
        return stamp


@pytest.mark.parametrize("broken", [StaleReads, LosesUpdates, ReusesTokens, LosesAcknowledgedWrites])
async def test_a_broken_store_is_noticed(clock: ManualClock, broken: Callable[[ManualClock], MemoryBackend]) -> None:
    check = LinearizabilitySuite().test_a_history_of_concurrent_clients_is_linearizable
    await check(await subject_on(MemoryBackend(clock)), SEED)
    with pytest.raises(AssertionError, match="no order explains"):
        await check(await subject_on(broken(clock)), SEED)


async def subject_on(backend: MemoryBackend) -> Subject:
    await backend.open()
    store = StoreService(backend)
    return Subject(store=store, peer=store, elapse=asyncio.sleep)
