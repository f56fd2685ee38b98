from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StaleFence
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobState
from antiphon_core.ports.store import Fence
from antiphon_edge.turns.job_lease import JobLease
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import Fault, FaultyStore, When

TENANT = "t"
TTL_MS = 1_000


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
