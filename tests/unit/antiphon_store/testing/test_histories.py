"""The recorder records calls as they happen, and the suite detects stores that are not linearizable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.ports.store import Fence, Record, Stamp
from antiphon_store.rows.model import Add, Delete, Kind, Put, Ref, Set
from antiphon_store.testing import LinearizabilitySuite, Subject
from antiphon_store.testing.histories import Recorder
from antiphon_store.testing.linearizability import UNKNOWN
from tests.support.stores import MemoryStore, tree_of

KEY = ("response", "r")
SEED = 1  # a seed with a fast search for an order; some seeds take a second


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


async def test_a_read_without_an_answer_is_not_recorded() -> None:
    recorder = Recorder()
    assert await recorder.record(KEY, "get", {}, answering(Timeout("late")), lambda value: value) == UNKNOWN
    assert recorder.operations == []


async def test_recorded_times_show_which_calls_overlapped() -> None:
    recorder, gate = Recorder(), asyncio.Event()
    slow = asyncio.create_task(recorder.record(KEY, "put", {}, gate.wait(), lambda _: "slow"))
    await asyncio.sleep(0)
    await recorder.record(KEY, "put", {}, answering(1), lambda _: "quick")
    gate.set()
    await slow
    quick, slow_one = recorder.operations
    assert slow_one.invoked < quick.invoked < quick.returned < slow_one.returned


class StaleReads(MemoryStore):
    """Answers a read with the record of two reads before."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._seen: dict[str, list[Record]] = {}

    async def get(self, tenant: str, response_id: str) -> Record:
        seen = self._seen.setdefault(response_id, [])
        seen.append(await self._inner.get(tenant, response_id))
        return seen[max(0, len(seen) - 3)]


class LosesUpdates(MemoryStore):
    """Compares versions in one step and writes in another."""

    async def put(self, tenant: str, record: Record, **options: Any) -> Stamp:
        tree = tree_of(record.id)
        before = await self.rows.row(tenant, tree, Kind.NODE, record.id)
        await asyncio.sleep(0)
        node = await self.rows.row(tenant, tree, Kind.NODE, record.id)
        if before is not None and node is not None and not node.fields["deleted"]:
            await self.rows.change(tenant, tree, Put(Ref(Kind.NODE, record.id), *before))
        return await self._inner.put(tenant, record, **options)


class ReusesTokens(MemoryStore):
    async def release_session(self, tenant: str, fence: Fence) -> bool:
        released = await self._inner.release_session(tenant, fence)
        if released:
            session = Set(Ref(Kind.SESSION, fence.session_id), {"fence": Add(-1)})
            await self.rows.change(tenant, tree_of(fence.session_id), session)
        return released


class LosesAcknowledgedWrites(MemoryStore):
    """Loses the first write of some records."""

    async def put(self, tenant: str, record: Record, **options: Any) -> Stamp:
        tree = tree_of(record.id)
        before = await self.rows.row(tenant, tree, Kind.NODE, record.id)
        stamp = await self._inner.put(tenant, record, **options)
        if (before is None or before.fields["deleted"]) and record.body.endswith(b'3"}'):
            await self.rows.change(tenant, tree, Delete(Ref(Kind.NODE, record.id)))
        return stamp


@pytest.mark.parametrize("broken", [StaleReads, LosesUpdates, ReusesTokens, LosesAcknowledgedWrites])
async def test_a_store_that_is_not_linearizable_is_detected(
    clock: ManualClock, broken: Callable[[ManualClock], MemoryStore]
) -> None:
    check = LinearizabilitySuite().test_a_history_of_concurrent_clients_is_linearizable
    await check(await subject_on(MemoryStore(clock)), SEED)
    with pytest.raises(AssertionError, match="no order explains"):
        await check(await subject_on(broken(clock)), SEED)


async def subject_on(store: MemoryStore) -> Subject:
    await store.open()
    return Subject(store=store, peer=store, elapse=asyncio.sleep)
