"""Executed, then timed out: whoever asks again gets the answer that got lost, and the effect is there once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, Timeout
from antiphon_core.ports.store import Precondition, Record, Status, TurnCommit
from antiphon_store.service import StoreService
from antiphon_store.testing.lineage import joined
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.wrappers.faulty import Fault, FaultyBackend, When

TENANT = "t"


async def retried(
    faulty: FaultyBackend, clock: ManualClock, atom: str, when: When, ask: Callable[[], Awaitable[Any]]
) -> Any:
    """The answer to a call whose first attempt broke."""
    faulty.plan(Fault(atom, when, error=Timeout))
    with pytest.raises(Timeout):
        await ask()
    clock.advance(0.05)
    return await ask()


@pytest.mark.parametrize("when", When)
async def test_put(faulty: FaultyBackend, clock: ManualClock, when: When) -> None:
    store, record = StoreService(faulty), draft()
    stamp = await retried(faulty, clock, "put", when, lambda: store.put(TENANT, record))
    assert stamp.version == (await store.get(TENANT, record.id)).version == 1


@pytest.mark.parametrize("when", When)
async def test_replacing_put(faulty: FaultyBackend, clock: ManualClock, when: When) -> None:
    store, record = StoreService(faulty), draft(status=Status.IN_PROGRESS)
    await store.put(TENANT, record)
    finished, condition = replace(record, status=Status.COMPLETED), Precondition(version=1)
    stamp = await retried(faulty, clock, "put", when, lambda: store.put(TENANT, finished, precondition=condition))
    assert stamp.version == (await store.get(TENANT, record.id)).version == 2


@pytest.mark.parametrize("when", When)
async def test_acquire(faulty: FaultyBackend, clock: ManualClock, when: When) -> None:
    store, session_id = StoreService(faulty), new_session_id()
    lease = await retried(
        faulty, clock, "acquire_lease", when, lambda: store.acquire_session(TENANT, session_id, holder="a")
    )
    assert lease.fence.token == 1


@pytest.mark.parametrize("when", When)
async def test_a_whole_turn(faulty: FaultyBackend, clock: ManualClock, when: When) -> None:
    store, session_id = StoreService(faulty), new_session_id()
    line: list[Record] = []
    for number in range(3):
        start = await retried(faulty, clock, "begin_turn", when, lambda: store.begin_turn(TENANT, turn_in(session_id)))
        assert (start.lease.fence.token, start.history.depth) == (number + 1, number)
        line.append(draft(line[-1] if line else None, session_id=session_id))
        commit = TurnCommit(line[-1], start.lease.fence)
        stamp = await retried(faulty, clock, "commit_turn", when, lambda c=commit: store.commit_turn(TENANT, c))  # type: ignore[misc]
        assert (stamp.version, stamp.depth) == (1, number)
    start = await store.begin_turn(TENANT, turn_in(session_id))
    assert start.history.items == joined(line)


@pytest.mark.parametrize("when", When)
async def test_delete_has_its_effect_once(faulty: FaultyBackend, when: When) -> None:
    store, record = StoreService(faulty), draft()
    await store.put(TENANT, record)
    faulty.plan(Fault("remove", when))
    for _ in range(2):
        try:
            await store.delete(TENANT, record.id)
        except AntiphonError:
            continue
    with pytest.raises(AntiphonError, match="not found"):
        await store.get(TENANT, record.id)


@pytest.mark.parametrize("when", When)
async def test_a_lost_release_ends_with_the_lease(faulty: FaultyBackend, clock: ManualClock, when: When) -> None:
    store, session_id = StoreService(faulty), new_session_id()
    start = await store.begin_turn(TENANT, turn_in(session_id))
    assert start.lease is not None
    fence = start.lease.fence
    faulty.plan(Fault("release_lease", when))
    with pytest.raises(AntiphonError):
        await store.abort_turn(TENANT, fence)
    clock.advance(30)
    other = await store.begin_turn(TENANT, turn_in(session_id, holder="other"))
    assert other.lease is not None
    assert other.lease.fence.token == 2
