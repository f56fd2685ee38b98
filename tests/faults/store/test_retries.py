"""Every operation that writes, with every fault: a retry gets the lost answer, and the effect is there once. In
between, the effect is there whole or not at all.

Two faults reach the backend and run on every backend: an error after the operation was executed, and a caller that
disconnects during it. The other faults act above the backend, which gets one ordinary call or none, so memory and
SQLite are enough for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import NotFound, SessionLocked, Timeout
from antiphon_core.ports.store import Record, Stamp, TurnCommit
from antiphon_store.rows.model import Add, Kind, Ref, Set
from antiphon_store.testing.faulty import Fault, When
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.operations import OPERATIONS, READS
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.faults.store.conftest import World
from tests.faults.store.every_write import WRITE_CASES, Scene, WriteCase
from tests.support.stores import MemoryStore, tree_of
from tests.support.waiting import until

SLOW_S = 0.02  # delay of a slow call, which succeeds
LEAVES_AFTER_S = (0, 0.0005, 0.002)  # operations take 0.1 to 5 ms

pytestmark = pytest.mark.asyncio(loop_scope="module")
above_the_backend = pytest.mark.parametrize("opened", ["memory", "sqlite"], indirect=True)
every_case = pytest.mark.parametrize("case", WRITE_CASES.values(), ids=list(WRITE_CASES))
# The effect of a sweep shows only in its answer, which is lost with the caller.
visible = {name: case for name, case in WRITE_CASES.items() if case.operation != "sweep"}


async def test_every_operation_that_writes_has_a_scene() -> None:
    assert {case.operation for case in WRITE_CASES.values()} == set(OPERATIONS) - READS


async def require_done_once(world: World, case: WriteCase, scene: Scene, *, already: bool) -> object:
    """Retries the call and returns the state afterwards. `already`: the call was executed, and its answer was lost."""
    world.clock.advance(scene.later_s)
    if already and scene.gone is not None:
        with pytest.raises(scene.gone):
            await scene.ask()
        return await scene.look()
    await scene.ask()
    first, *others = world.recorder.answers_of(case.operation)
    assert len(others) == already
    assert not scene.same_answer or [first] * len(others) == others
    return await scene.look()


@above_the_backend
@every_case
async def test_a_write_that_failed_before_execution_can_be_retried(world: World, case: WriteCase) -> None:
    scene = await case.arrange(world)
    before = await scene.look()
    with breaking(world, Fault(case.operation, When.BEFORE, error=Timeout)), pytest.raises(Timeout):
        await scene.ask()
    assert await scene.look() == before
    assert await require_done_once(world, case, scene, already=False) != before


@every_case
async def test_a_retry_of_an_executed_write_changes_nothing(world: World, case: WriteCase) -> None:
    scene = await case.arrange(world)
    before = await scene.look()
    with breaking(world, Fault(case.operation, When.AFTER, error=Timeout)), pytest.raises(Timeout):
        await scene.ask()
    done = await scene.look()
    assert done != before
    assert await require_done_once(world, case, scene, already=True) == done


@above_the_backend
@every_case
async def test_a_retry_of_a_slow_write_changes_nothing(world: World, case: WriteCase) -> None:
    scene = await case.arrange(world)
    before = await scene.look()
    with breaking(world, Fault(case.operation, When.BEFORE, error=None, delay_s=SLOW_S)):
        await scene.ask()
    done = await scene.look()
    assert done != before
    assert await require_done_once(world, case, scene, already=True) == done


@above_the_backend
@every_case
async def test_a_write_that_timed_out_before_execution_can_be_retried(world: World, case: WriteCase) -> None:
    scene = await case.arrange(world)
    before = await scene.look()
    with breaking(world, Fault(case.operation, When.BEFORE, error=None, delay_s=3600)):
        asking = asyncio.ensure_future(scene.ask())
        await until(lambda: not world.faulty.planned, f"{case.operation} is asked for")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert await scene.look() == before
    assert await require_done_once(world, case, scene, already=False) != before


@pytest.mark.parametrize("case", visible.values(), ids=list(visible))
async def test_a_write_cancelled_during_execution_happens_once_after_a_retry(world: World, case: WriteCase) -> None:
    """The cancelled call may have happened or not. A retry leaves its effect once, as in a run without a fault."""
    for delay_s in LEAVES_AFTER_S:
        world.start_over()
        world.recorder.answers.clear()
        scene = await case.arrange(world)
        before = await scene.look()
        asking = asyncio.ensure_future(scene.ask())
        await asyncio.sleep(delay_s)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        between = await settled(scene)
        world.clock.advance(scene.later_s)
        for _ in range(2):
            with contextlib.suppress(*filter(None, [scene.gone])):
                await scene.ask()
            done = await scene.look()
            assert between in (before, done)
            assert done != before
            between = done


async def settled(scene: Scene) -> object:
    """The state of the store when no call is running. A look is several calls, and a record may be deleted between two
    of them: the look is repeated until two results agree."""
    before: object = object()
    while True:
        with contextlib.suppress(NotFound):
            if (seen := await scene.look()) == before:
                return seen
            before = seen
        await asyncio.sleep(0.005)


@contextlib.contextmanager
def breaking(world: World, fault: Fault) -> Iterator[None]:
    """Injects one fault into the next call of its operation, which must come. Clears the answers recorded before."""
    world.recorder.answers.clear()
    world.faulty.plan(fault)
    yield
    assert not world.faulty.planned


@pytest.mark.parametrize("when", When)
async def test_a_session_is_complete_when_each_call_fails_once(world: World, when: When) -> None:
    """Each call of each turn fails once. Nothing is stored twice, and nothing is missing."""
    session_id, line = new_session_id(), list[Record]()
    for number in range(3):
        begin = turn_in(session_id)
        with breaking(world, Fault("begin_turn", when, error=Timeout)), pytest.raises(Timeout):
            await world.store.begin_turn(world.tenant, begin)
        start = await world.store.begin_turn(world.tenant, begin)
        assert start.lease is not None
        assert (start.lease.fence.token, start.history.depth) == (number + 1, number)
        line.append(draft(line[-1] if line else None, session_id=session_id))
        commit = TurnCommit(line[-1], start.lease.fence)
        with breaking(world, Fault("commit_turn", when, error=Timeout)), pytest.raises(Timeout):
            await world.store.commit_turn(world.tenant, commit)
        stamp = await world.store.commit_turn(world.tenant, commit)
        assert (stamp.version, stamp.depth) == (1, number)
    start = await world.store.begin_turn(world.tenant, turn_in(session_id))
    assert start.history.items == join_history(line)


@pytest.mark.parametrize("when", When)
async def test_a_lease_whose_release_was_lost_ends_at_its_expiry(world: World, when: When) -> None:
    session_id = new_session_id()
    _history, lease = await world.subject.begin_in(session_id)
    with breaking(world, Fault("abort_turn", when, error=Timeout)), pytest.raises(Timeout):
        await world.store.abort_turn(world.tenant, lease.fence)
    if when is When.BEFORE:  # the release never happened
        with pytest.raises(SessionLocked):
            await world.subject.begin_in(session_id, holder="other")
        world.clock.advance(30)
    _history, other = await world.subject.begin_in(session_id, holder="other")
    assert other.fence.token == 2


class WritesAgain(MemoryStore):
    """Increases the version on every put, also on a repeated one."""

    async def put(self, tenant: str, record: Record, **options: Any) -> Stamp:
        stamp = await self._inner.put(tenant, record, **options)
        again = Set(Ref(Kind.NODE, record.id), {"version": Add(1)})
        await self.rows.change(tenant, tree_of(record.id), again)
        return stamp


class CommitsInTwoSteps(MemoryStore):
    """Writes the record and moves the session's head in two steps, between which other calls run."""

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        await self._inner.put(tenant, commit.record)
        await asyncio.sleep(0)
        return await self._inner.commit_turn(tenant, commit)


@pytest.mark.parametrize(
    ("broken", "case"),
    [(WritesAgain, "put: a child"), (CommitsInTwoSteps, "commit_turn: under a lease")],
)
async def test_a_broken_store_fails_the_retry_tests(clock: ManualClock, broken: type[MemoryStore], case: str) -> None:
    for store, noticed in ((MemoryStore(clock), False), (broken(clock), True)):
        world = World(store, clock)
        await world.faulty.open()
        try:
            await test_a_retry_of_an_executed_write_changes_nothing(world, WRITE_CASES[case])
            await test_a_write_cancelled_during_execution_happens_once_after_a_retry(world, WRITE_CASES[case])
        except AssertionError:
            assert noticed
        else:
            assert not noticed
