from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import DataDamaged, StaleFence, StoreUnavailable
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDraft, JobPulse, JobState
from antiphon_core.ports.store import Fence, Lease, TurnRequest, TurnStart
from antiphon_edge.turns import durable_turns
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.durable_turns import StaleKey, TurnJobs
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS, TurnTiming
from antiphon_edge.turns.turn_watch import Delivery
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import Fault, FaultyStore, When
from tests.support.served_models import turn
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_parts
from tests.support.waiting import WAIT_MAX_S

TENANT = "t"
CLAIM_MS = 600_000
FINGERPRINT = b"f" * 32
FAST = RenewalPace(every_s=0.001, retry_s=0.001)
JOB_KEPT = TurnTiming(job_pace=FAST)
BOTH_KEPT = TurnTiming(job_pace=FAST, key_pace=FAST, job_lease_ms=CLAIM_MS)


class CountingStore(FaultyStore):
    """A store that counts the heartbeats of jobs and the claims of keys."""

    heartbeats = 0
    claims = 0

    async def begin_turn(self, *arguments: Any, **options: Any) -> TurnStart:
        start = await super().begin_turn(*arguments, **options)
        self.claims += 1
        return start

    async def heartbeat_job(self, *arguments: Any, **options: Any) -> JobPulse:
        pulse = await super().heartbeat_job(*arguments, **options)
        self.heartbeats += 1
        return pulse


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = self.backend = CountingStore(StoreService(row_backend("memory://", clock=self.clock)))
        self.use(JOB_KEPT)

    def use(self, timing: TurnTiming) -> None:
        """Gives the edge another timing."""
        self.jobs = TurnJobs(self.store, ids=RandomIds(), timing=timing)
        store: Any = self.store
        self._runner = turn_parts(store, ScriptedTranslator(), clock=self.clock, timing=timing).runner

    def kept(self, held: AcceptedTurn) -> AbstractAsyncContextManager[None]:
        """Renews the job and the key of a turn until the block is left, as the turn's runner does."""
        assert held.job_lease is not None
        run = TurnRun(held, delivery=Delivery.KEYED)
        return held.job_lease.run_renewals(*self._runner._renewals_of(run, held.job_lease))

    async def state(self, accepted: AcceptedTurn) -> JobState:
        return (await self.store.describe_job(TENANT, accepted.response_id)).state

    async def until_heartbeat(self) -> None:
        """Waits for two more heartbeats; the second one began after this call."""
        enough = self.store.heartbeats + 2
        async with asyncio.timeout(30):
            while self.store.heartbeats < enough:
                await asyncio.sleep(0.001)

    async def until_claimed(self) -> None:
        """Waits for two more claims of the key; the second one began after this call."""
        enough = self.store.claims + 2
        async with asyncio.timeout(30):
            while self.store.claims < enough:
                await asyncio.sleep(0.001)

    async def hold(self, accepted: AcceptedTurn) -> AcceptedTurn:
        held = await self.jobs.enqueue(accepted)
        assert held is not None
        return held


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.backend.close()


def accepted(**members: Any) -> AcceptedTurn:
    asked = replace(turn("Hi"), response_id=new_response_id(RandomIds()))
    turn_ = replace(asked, tenant=TENANT)
    return AcceptedTurn(TENANT, turn_, key="k", fingerprint=FINGERPRINT, has_log=True, **members)


def repeated(asked: AcceptedTurn) -> RepeatedRequest:
    """A later request with the key of a turn."""
    return RepeatedRequest(TENANT, asked.response_id, None, "k", asked.fingerprint)


async def test_held_turn_has_the_fence_of_its_job_and_cannot_be_taken_over(bench: Bench) -> None:
    asked = accepted()
    held = await bench.hold(asked)
    assert held.job_lease is not None
    assert held.job_lease.fence == Fence(asked.response_id, 1)
    assert held == asked
    assert await bench.jobs.take_over(repeated(asked)) is None


async def test_turn_of_a_dead_edge_is_taken_over_with_a_new_fence(bench: Bench) -> None:
    asked = accepted(parent_id="p", lease=Lease(Fence("s", 4), "x", 9))
    await bench.hold(asked)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.jobs.take_over(repeated(asked))
    assert taken is not None
    assert (taken.turn, taken.key, taken.parent_id, taken.has_log) == (asked.turn, "k", "p", True)
    assert taken.job_lease is not None
    assert taken.job_lease.fence == Fence(asked.response_id, 2)
    assert taken.lease is not None
    assert taken.lease.fence.session_id == "s"


async def test_takeover_of_an_unknown_turn_takes_nothing(bench: Bench) -> None:
    await bench.hold(accepted())
    bench.clock.advance(60)
    assert (
        await bench.jobs.take_over(RepeatedRequest(TENANT, new_response_id(RandomIds()), None, "k", FINGERPRINT))
        is None
    )


async def test_job_lease_is_renewed_while_the_turn_runs(bench: Bench) -> None:
    bench.backend.plan(Fault("heartbeat_job", When.BEFORE))
    held = await bench.hold(accepted())
    async with bench.kept(held):
        for _ in range(4):
            bench.clock.advance(JOB_LEASE_MS / 2000)
            await bench.until_heartbeat()
    assert await bench.state(held) is JobState.RUNNING


async def running(bench: Bench) -> str | None:
    """The id of the response that runs under the key, as a repeated request gets it."""
    asked = TurnRequest(idempotency_key="k", fingerprint=FINGERPRINT, response_id=new_response_id(RandomIds()))
    return (await bench.store.begin_turn(TENANT, asked)).running_response_id


async def claimed(bench: Bench) -> AcceptedTurn:
    """A held turn that has claimed its key."""
    asked = accepted()
    claim = TurnRequest(idempotency_key="k", fingerprint=asked.fingerprint, response_id=asked.response_id)
    await bench.store.begin_turn(TENANT, claim)
    return await bench.hold(asked)


async def test_a_turn_that_takes_long_keeps_its_key(bench: Bench) -> None:
    bench.use(BOTH_KEPT)
    held = await claimed(bench)
    async with bench.kept(held):
        for _ in range(4):
            bench.clock.advance(CLAIM_MS / 2000)
            await bench.until_claimed()
        assert await running(bench) == held.response_id


async def test_edge_that_took_a_turn_over_keeps_its_key(bench: Bench) -> None:
    held = await claimed(bench)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.jobs.take_over(repeated(held))
    assert taken is not None
    bench.use(BOTH_KEPT)
    async with bench.kept(taken):
        bench.clock.advance(1)
        await bench.until_claimed()
    bench.clock.advance((CLAIM_MS - JOB_LEASE_MS) / 1000)
    assert await running(bench) == held.response_id


async def test_dropped_turn_does_not_claim_its_key_again(bench: Bench) -> None:
    bench.use(BOTH_KEPT)
    held = await claimed(bench)
    bench.backend.plan(Fault("begin_turn", When.BEFORE, error=None, delay_s=0.05))
    async with bench.kept(held):
        await asyncio.sleep(0.01)  # the next claim of the key is on its way
        await bench.jobs.drop(held)
        await bench.store.abort_turn(TENANT, None, idempotency_key="k", response_id=held.response_id)
        await asyncio.sleep(0.05)
        assert await running(bench) is None


async def test_turn_that_was_taken_over_is_not_settled_by_its_first_edge(bench: Bench) -> None:
    held = await bench.hold(accepted())
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.jobs.take_over(repeated(held))
    async with bench.kept(held):
        await asyncio.sleep(0.02)
    await bench.jobs.release(held, is_over=True)
    assert await bench.state(held) is JobState.RUNNING
    assert taken is not None
    with pytest.raises(StaleFence):
        await bench.store.heartbeat_job(TENANT, Fence(held.response_id, 1))


async def test_turn_with_an_expired_lease_that_was_not_taken_over_is_claimed_again(bench: Bench) -> None:
    held = await bench.hold(accepted())
    bench.clock.advance(JOB_LEASE_MS / 1000)
    assert await bench.state(held) is JobState.QUEUED
    async with bench.kept(held), asyncio.timeout(WAIT_MAX_S):
        while await bench.state(held) is not JobState.RUNNING:
            await asyncio.sleep(0.001)
    assert await bench.jobs.release(held, is_over=True)
    assert await bench.state(held) is JobState.SUCCEEDED


async def test_released_turn_is_not_claimed_again(bench: Bench) -> None:
    held = await bench.hold(accepted())
    async with bench.kept(held):
        await bench.jobs.release(held, is_over=False)
        await asyncio.sleep(0.05)
        assert await bench.state(held) is JobState.QUEUED


async def test_release_settles_the_job_or_leaves_it_to_another_edge(bench: Bench) -> None:
    held = await bench.hold(accepted())
    await bench.jobs.release(held, is_over=False)
    taken = await bench.jobs.take_over(repeated(held))
    assert taken is not None
    await bench.jobs.release(taken, is_over=True)
    assert await bench.state(held) is JobState.SUCCEEDED
    assert await bench.jobs.take_over(repeated(held)) is None


async def test_release_with_an_unavailable_store_raises_nothing(bench: Bench) -> None:
    held = await bench.hold(accepted())
    bench.backend.plan(Fault("settle_job", When.BEFORE))
    await bench.jobs.release(held, is_over=True)
    assert await bench.state(held) is JobState.RUNNING


async def test_dropped_turn_leaves_no_open_job(bench: Bench) -> None:
    held = await bench.hold(accepted())
    await bench.jobs.drop(held)
    assert await bench.state(held) is JobState.SUCCEEDED
    never = accepted()
    await bench.jobs.drop(never)  # there is no job yet
    queued = accepted()
    bench.backend.plan(Fault("enqueue_job", When.AFTER))
    with pytest.raises(Exception, match="injected"):
        await bench.jobs.enqueue(queued)
    assert await bench.jobs.drop(queued)
    assert await bench.state(queued) is JobState.SUCCEEDED


async def test_dropped_turn_without_a_key_leaves_no_open_job(bench: Bench) -> None:
    queued = replace(accepted(), key=None)
    bench.backend.plan(Fault("enqueue_job", When.AFTER))
    with pytest.raises(StoreUnavailable):
        await bench.jobs.enqueue(queued)
    assert await bench.jobs.drop(queued)
    assert await bench.state(queued) is JobState.SUCCEEDED


async def test_damaged_job_of_a_turn_without_a_key_is_settled(bench: Bench) -> None:
    lost = replace(accepted(), key=None)
    await bench.store.enqueue_job(TENANT, JobDraft(lost.response_id, f"unkeyed.{lost.response_id}", b"?"))
    with pytest.raises(DataDamaged):
        await bench.jobs.claim_unkeyed(TENANT, lost.response_id)
    assert await bench.state(lost) is JobState.FAILED


async def test_turn_whose_answer_was_lost_is_not_dropped_while_another_edge_runs_it(bench: Bench) -> None:
    asked = accepted()
    bench.backend.plan(Fault("enqueue_job", When.AFTER))
    with pytest.raises(StoreUnavailable):
        await bench.jobs.enqueue(asked)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.jobs.take_over(repeated(asked))
    assert taken is not None
    assert not await bench.jobs.drop(asked)
    assert not (await bench.store.describe_job(TENANT, asked.response_id)).cancel_requested
    async with bench.kept(taken):
        await bench.until_heartbeat()
    await bench.jobs.release(taken, is_over=True)
    assert not await bench.jobs.drop(asked)  # it was ended, and may have a record


async def test_job_of_a_store_that_knows_no_holders_is_claimed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the release before ignores the holder of a new job."""
    enqueue_job = StoreService.enqueue_job

    async def enqueue(store: StoreService, tenant: str, draft: JobDraft) -> None:
        await enqueue_job(store, tenant, replace(draft, holder=None))

    monkeypatch.setattr(StoreService, "enqueue_job", enqueue)
    held = await bench.hold(accepted())
    assert await bench.state(held) is JobState.RUNNING
    assert await bench.jobs.release(held, is_over=True)


async def test_turn_is_not_dropped_while_the_store_is_away(bench: Bench) -> None:
    asked = accepted()
    bench.backend.plan(Fault("claim_job", When.BEFORE))
    assert not await bench.jobs.drop(asked)


async def give_key_to_another(bench: Bench, asked: AcceptedTurn) -> None:
    await bench.store.abort_turn(TENANT, None, idempotency_key="k", response_id=asked.response_id)
    other = TurnRequest(idempotency_key="k", fingerprint=FINGERPRINT, response_id=new_response_id(RandomIds()))
    await bench.store.begin_turn(TENANT, other)


async def test_turn_without_its_key_is_not_taken_over(bench: Bench) -> None:
    held = await claimed(bench)
    await give_key_to_another(bench, held)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    assert await bench.jobs.take_over(repeated(held)) is None
    assert await bench.state(held) is JobState.SUCCEEDED


async def test_turn_that_waited_long_for_its_job_runs_only_with_its_key(bench: Bench) -> None:
    bench.use(replace(JOB_KEPT, stale_key_s=0.0))
    late = accepted()
    await give_key_to_another(bench, late)
    assert await bench.jobs.enqueue(late) is None
    assert await bench.state(late) is JobState.SUCCEEDED


async def test_takeover_that_cannot_ask_for_the_key_leaves_the_turn_to_others(bench: Bench) -> None:
    held = await claimed(bench)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    bench.backend.plan(Fault("begin_turn", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await bench.jobs.take_over(repeated(held))
    assert await bench.jobs.take_over(repeated(held)) is not None


async def test_turn_without_a_key_needs_no_job_to_be_dropped(bench: Bench) -> None:
    plain = replace(accepted(), key=None)
    assert await bench.jobs.drop(plain)  # without a job, no other edge can hold the turn


async def test_turn_is_open_for_its_tenant_until_it_is_over(bench: Bench) -> None:
    asked = accepted()
    assert not await bench.jobs.is_open(TENANT, asked.response_id)
    held = await bench.hold(asked)
    assert await bench.jobs.is_open(TENANT, asked.response_id)
    assert not await bench.jobs.is_open("other", asked.response_id)
    await bench.jobs.release(held, is_over=False)
    assert await bench.jobs.is_open(TENANT, asked.response_id)
    again = await bench.jobs.take_over(repeated(asked))
    assert again is not None
    await bench.jobs.release(again, is_over=True)
    assert not await bench.jobs.is_open(TENANT, asked.response_id)
    in_background = new_response_id(RandomIds())
    await bench.store.enqueue_job(TENANT, JobDraft(in_background, DISPATCH_QUEUE, b"{}"))
    assert not await bench.jobs.is_open(TENANT, in_background)


STALE_AFTER_S = 10.0


@pytest.fixture
def loop_clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Replaces the clock of the event loop that StaleKey reads."""
    clock = ManualClock()
    loop = SimpleNamespace(time=clock.monotonic)
    monkeypatch.setattr(durable_turns, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    return clock


async def test_stale_key_is_released_only_after_its_time(bench: Bench, loop_clock: ManualClock) -> None:
    dead = repeated(await claimed(bench))
    first = StaleKey(bench.store, stale_after_s=STALE_AFTER_S)
    for pause_s in (0, STALE_AFTER_S - 0.1):
        loop_clock.advance(pause_s)
        await first.release_if_stale(dead)
        assert await running(bench) == dead.response_id
    loop_clock.advance(0.1)
    await first.release_if_stale(dead)
    assert await running(bench) is None


async def test_time_until_a_key_is_stale_begins_anew_for_each_first_request(
    bench: Bench, loop_clock: ManualClock
) -> None:
    first = StaleKey(bench.store, stale_after_s=STALE_AFTER_S)
    await first.release_if_stale(repeated(accepted()))
    later = repeated(await claimed(bench))
    loop_clock.advance(STALE_AFTER_S)
    await first.release_if_stale(later)
    assert await running(bench) == later.response_id
