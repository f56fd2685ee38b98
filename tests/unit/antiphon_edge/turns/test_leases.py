from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, StaleFence, StoreUnavailable, Timeout
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobState
from antiphon_core.ports.store import Fence
from antiphon_edge.turns import leases
from antiphon_edge.turns.leases import JobLease, RenewalPace
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import Fault, FaultyStore, When

TENANT = "t"
TTL_MS = 1_000
FAST = RenewalPace(every_s=0.001, retry_s=0.001)


class Lease:
    """A lease whose renewals raise the given errors, and then succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.renewals = 0
        self.renewed_often = asyncio.Event()
        self.lost: list[StaleFence] = []
        self.is_lost = asyncio.Event()

    async def renew(self) -> None:
        self.renewals += 1
        if self.renewals == 4:
            self.renewed_often.set()
        if self.errors:
            raise self.errors.pop(0)

    def on_lost(self, error: StaleFence) -> None:
        self.lost.append(error)
        self.is_lost.set()

    def kept(self, pace: RenewalPace = FAST) -> AbstractAsyncContextManager[None]:
        return leases.keep_renewed("session s", self.renew, pace, self.on_lost)


async def test_a_lease_is_renewed_until_the_block_is_left() -> None:
    lease = Lease()
    async with lease.kept(), asyncio.timeout(30):
        await lease.renewed_often.wait()
    count = lease.renewals
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert lease.renewals == count


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), Timeout("late"), InternalError("bug")])
async def test_an_error_of_the_store_does_not_lose_the_lease(error: Exception) -> None:
    lease = Lease(error, error)
    async with lease.kept(), asyncio.timeout(30):
        await lease.renewed_often.wait()
    assert lease.lost == []


async def test_lease_is_renewed_sooner_after_an_error() -> None:
    lease = Lease()
    lease.errors = [StoreUnavailable("gone")] * 3
    async with lease.kept(RenewalPace(every_s=0.001, retry_s=0)), asyncio.timeout(30):
        await lease.renewed_often.wait()


async def test_a_lost_lease_is_reported_once_and_not_renewed_again() -> None:
    stale = StaleFence.of("s", token=1)
    lease = Lease(stale)
    async with lease.kept(), asyncio.timeout(30):
        await lease.is_lost.wait()
        for _ in range(10):
            await asyncio.sleep(0.001)
    assert (lease.lost, lease.renewals) == ([stale], 1)


async def test_error_of_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with Lease(InternalError("bug")).kept():
            await asyncio.sleep(0.005)
            raise ValueError("mine")


@pytest.mark.parametrize(("now_s", "expected"), [(10.0, 2.0), (11.5, 0.5), (11.9, 2.1), (12.0, 2.0)])
def test_all_leases_of_a_pace_are_renewed_at_its_multiples(now_s: float, expected: float) -> None:
    assert leases._until_next_s(now_s, 2.0) == pytest.approx(expected)


def test_pace_of_zero_seconds_has_no_pause() -> None:
    assert leases._until_next_s(10.5, 0) == 0


class Bench:
    """A store with one job, leased by the worker `mine`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = self.backend = FaultyStore(StoreService(row_backend("memory://", clock=self.clock)))
        self.id = new_response_id(RandomIds())
        self.claims = 0

    async def claim(self, holder: str) -> Job | None:
        return await self.store.claim_job(TENANT, ["q"], holder=holder, lease_ttl_ms=TTL_MS)

    async def hold(self) -> JobLease:
        await self.store.enqueue_job(TENANT, JobDraft(self.id, "q", b"", max_attempts=9))

        async def claim() -> Job | None:
            self.claims += 1
            return await self.claim("mine")

        job = await claim()
        assert job is not None
        return JobLease(self.store, TENANT, job, claim)

    async def write(self, fence: Fence) -> int:
        """Writes under a fence and returns the token of the fence."""
        await self.store.heartbeat_job(TENANT, fence, lease_ttl_ms=TTL_MS)
        return fence.token

    async def state(self) -> JobState:
        return (await self.store.describe_job(TENANT, self.id)).state


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.backend.close()


async def test_expired_job_lease_that_was_not_taken_is_claimed_again(bench: Bench) -> None:
    hold = await bench.hold()
    tokens = []
    for _ in range(3):
        tokens += [await hold.under_fence(bench.write), await hold.under_fence(bench.write)]
        bench.clock.advance(TTL_MS / 1000)
    assert tokens == [1, 1, 2, 2, 3, 3]


async def test_concurrent_writes_after_the_expiry_claim_the_job_once(bench: Bench) -> None:
    hold = await bench.hold()
    bench.clock.advance(TTL_MS / 1000)
    bench.backend.plan(Fault("claim_job", When.BEFORE, error=None, delay_s=0.02))
    assert await asyncio.gather(*(hold.under_fence(bench.write) for _ in range(5))) == [2] * 5
    assert bench.claims == 2


async def test_claim_without_an_answer_is_retried(bench: Bench) -> None:
    hold = await bench.hold()
    bench.clock.advance(TTL_MS / 1000)
    bench.backend.plan(Fault("claim_job", When.AFTER))
    with pytest.raises(Exception, match="injected"):
        await hold.under_fence(bench.write)
    assert await hold.under_fence(bench.write) == 2


async def test_job_leased_by_another_worker_is_not_claimed(bench: Bench) -> None:
    hold = await bench.hold()
    bench.clock.advance(TTL_MS / 1000)
    theirs = await bench.claim("theirs")
    assert theirs is not None
    for _ in range(2):
        with pytest.raises(StaleFence):
            await hold.under_fence(bench.write)
    await bench.write(theirs.fence)


@pytest.mark.parametrize("ends", ["given back", "run out"])
async def test_job_that_another_worker_had_leased_is_not_claimed_again(bench: Bench, ends: str) -> None:
    """The other worker may have changed the job: this worker must not resume it."""
    hold = await bench.hold()
    bench.clock.advance(TTL_MS / 1000)
    theirs = await bench.claim("theirs")
    assert theirs is not None
    if ends == "given back":
        await bench.store.settle_job(TENANT, theirs.fence, JobOutcome.RETRY)
    else:
        bench.clock.advance(TTL_MS / 1000)
    for _ in range(2):
        with pytest.raises(StaleFence):
            await hold.under_fence(bench.write)
        assert await bench.state() is JobState.QUEUED
    assert await bench.claim("next") is not None


async def test_settled_job_is_not_claimed_again(bench: Bench) -> None:
    hold = await bench.hold()
    await bench.store.settle_job(TENANT, Fence(bench.id, 1), JobOutcome.SUCCEEDED)
    with pytest.raises(StaleFence):
        await hold.under_fence(bench.write)
    assert await bench.state() is JobState.SUCCEEDED


async def test_lost_session_lease_does_not_claim_the_job_again(bench: Bench) -> None:
    hold = await bench.hold()

    async def write(_fence: Fence) -> None:
        raise StaleFence.of("session", token=1)

    with pytest.raises(StaleFence):
        await hold.under_fence(write)
    assert bench.claims == 1
    assert await hold.under_fence(bench.write) == 1
