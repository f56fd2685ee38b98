"""The line of tenants: claims serve tenants in turn, in proportion to their weights."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job, JobDraft, JobOutcome
from antiphon_store.decisions.jobs import LOOK_MS
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.rows import SpiedRows

TTL_MS = 6_000


async def enqueue(store: StoreService, tenant: str, *, run_after_ms: int = 0) -> str:
    job_id = draft().id
    job = JobDraft(job_id, DISPATCH_QUEUE, b"p", run_after_ms=run_after_ms)
    await store.enqueue_job(tenant, job)
    return job_id


async def claim(store: StoreService, clock: ManualClock, holder: str = "h") -> Job | None:
    clock.advance(0.001)
    return await store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder=holder, lease_ttl_ms=TTL_MS)


async def claimed(store: StoreService, clock: ManualClock, count: int) -> list[str]:
    """The tenants of `count` claims."""
    jobs = [await claim(store, clock, f"h{number}") for number in range(count)]
    return [job.tenant for job in jobs if job is not None]


async def test_the_first_job_of_a_tenant_is_claimed_before_the_backlog_of_another(
    store: StoreService, clock: ManualClock
) -> None:
    for _ in range(50):
        await enqueue(store, "flood")
    clock.advance(1)
    await enqueue(store, "victim")
    assert "victim" in await claimed(store, clock, 2)


async def test_jobs_of_tenants_are_claimed_in_turn(store: StoreService, clock: ManualClock) -> None:
    for tenant in "aaabbbccc":
        await enqueue(store, tenant)
    tenants = await claimed(store, clock, 9)
    assert [Counter(tenants[first : first + 3]) for first in (0, 3, 6)] == [Counter("abc")] * 3


async def test_a_tenant_of_weight_three_has_three_turns_of_four(store: StoreService, clock: ManualClock) -> None:
    for _ in range(20):
        await enqueue(store, "heavy")
        await enqueue(store, "light")
    assert Counter(await claimed(store, clock, 16)) == {"heavy": 12, "light": 4}


async def test_concurrent_claims_give_each_job_to_one_holder(store: StoreService, clock: ManualClock) -> None:
    ids = [await enqueue(store, tenant) for tenant in "aabbc"]
    jobs = await asyncio.gather(*(claim(store, clock, str(number)) for number in range(12)))
    assert sorted(job.id for job in jobs if job is not None) == sorted(ids)


async def test_a_tenant_with_delayed_jobs_leaves_until_they_are_due(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    await enqueue(store, "a", run_after_ms=5_000)
    assert await claim(store, clock) is None
    rows.forget_calls()
    assert await claim(store, clock) is None
    assert rows.calls == ["take_due", "page"]  # no tenant is in the line
    clock.advance(5)
    assert await claimed(store, clock, 1) == ["a"]


async def test_the_job_of_a_dead_worker_is_claimed_when_its_lease_is_over(
    store: StoreService, clock: ManualClock
) -> None:
    await enqueue(store, "a")
    first = await claim(store, clock, "dead")
    assert first is not None
    assert await claim(store, clock, "b") is None
    clock.advance(TTL_MS / 1000)
    second = await claim(store, clock, "b")
    assert second is not None
    assert (second.id, second.attempt) == (first.id, 2)


@pytest.mark.parametrize("outcome", [JobOutcome.RETRY, JobOutcome.POSTPONED])
async def test_a_retried_or_postponed_job_is_claimable_after_its_delay(
    store: StoreService, clock: ManualClock, outcome: JobOutcome
) -> None:
    await enqueue(store, "a")
    job = await claim(store, clock)
    assert job is not None
    await store.settle_job("a", job.fence, outcome, after_ms=2_000)
    assert await claim(store, clock) is None
    clock.advance(2)
    again = await claim(store, clock)
    assert again is not None
    assert again.max_attempts - job.max_attempts == (1 if outcome is JobOutcome.POSTPONED else 0)


async def test_a_job_that_failed_by_lease_expiry_is_reported_to_a_worker_once(
    store: StoreService, clock: ManualClock
) -> None:
    job_id = draft().id
    job = JobDraft(job_id, DISPATCH_QUEUE, b"p", max_attempts=1)
    await store.enqueue_job("a", job)
    await claim(store, clock)
    clock.advance(TTL_MS / 1000)
    over = await claim(store, clock)
    assert over is not None
    assert (over.id, over.tenant, over.lease_expires_at_ms) == (job_id, "a", 0)
    assert await claim(store, clock) is None


@pytest.mark.parametrize("hours", [-1, 1])
async def test_jobs_stay_claimable_after_a_clock_step(store: StoreService, clock: ManualClock, hours: int) -> None:
    await enqueue(store, "runs")
    running = await claim(store, clock, "dead")
    assert running is not None
    await enqueue(store, "waits")
    clock.advance(3_600 * hours)
    clock.advance(LOOK_MS / 1000)
    assert sorted(await claimed(store, clock, 4)) == ["runs", "waits"]


async def test_a_holder_keeps_its_job_after_a_clock_step_back(store: StoreService, clock: ManualClock) -> None:
    await enqueue(store, "a")
    job = await claim(store, clock)
    assert job is not None
    clock.advance(-3_600)
    pulse = await store.heartbeat_job("a", job.fence, lease_ttl_ms=TTL_MS)
    assert pulse.lease_expires_at_ms == clock.now_ms() + TTL_MS
    assert await claim(store, clock, "b") is None


async def test_cancelling_after_a_clock_step_back_ends_the_job_of_a_lost_holder(
    store: StoreService, clock: ManualClock
) -> None:
    job_id = await enqueue(store, "a")
    await claim(store, clock, "dead")
    clock.advance(-3_600)
    assert await store.cancel_job("a", job_id)
    assert (await store.describe_job("a", job_id)).state.value == "cancelled"
