"""A tenant tries to block the jobs of others with many jobs, delayed jobs, and jobs of a model that is down. The tests
count how many jobs of the attacker run before the victim's; they measure no time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDraft, JobState
from antiphon_core.ports.store import Status
from antiphon_core.retrying import RetryPolicy
from tests.support.background import TIMING, Bench, KillableWorker, bench, hasten
from tests.support.fixed_text_model import FixedTextEngine
from tests.support.waiting import until

ATTACKER, VICTIM = "attacker", "victim"
FLOOD = 200
DAY_MS = 86_400_000


@pytest.fixture
async def shop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def test_a_flood_of_jobs_delays_another_tenants_first_by_one_job_at_most(shop: Bench) -> None:
    for _ in range(FLOOD):
        await shop.create(tenant=ATTACKER)
    wanted = await shop.create(tenant=VICTIM)
    shop.clock.advance(0.001)  # within a millisecond the line has no order
    async with shop.worker(slots=1) as worker:
        assert (await shop.ended(wanted.id, tenant=VICTIM)).status is Status.COMPLETED
        await until(lambda: VICTIM in tenants_of_ended_jobs(worker), "the victim's job ended")
    assert tenants_of_ended_jobs(worker).index(VICTIM) <= 1


def tenants_of_ended_jobs(worker: KillableWorker) -> list[str]:
    """The tenants of the jobs that a worker has ended with their records, first the first."""
    commits = [arguments for name, arguments in worker.store.calls if name == "commit_turn"]
    return [tenant for tenant, commit in commits if commit.ends_job]


async def test_delayed_jobs_hold_no_slot(shop: Bench) -> None:
    for _ in range(64):
        job_id = new_response_id(RandomIds())
        draft = JobDraft(job_id, DISPATCH_QUEUE, b"{}", run_after_ms=DAY_MS)
        await shop.store.enqueue_job(ATTACKER, draft)
    wanted = await shop.create(tenant=VICTIM)
    async with shop.worker(slots=2):
        assert (await shop.ended(wanted.id, tenant=VICTIM)).status is Status.COMPLETED


async def test_jobs_of_a_model_that_is_down_hold_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    for_ever = replace(TIMING, engine_retry=RetryPolicy(for_s=3_600, first_s=60, most_s=60))
    async with bench(timing=for_ever) as shop:
        await have_dead_jobs_and_a_living_one(shop)


async def have_dead_jobs_and_a_living_one(shop: Bench) -> None:
    dead = FixedTextEngine()
    shop.serve("dead", dead)
    await dead.close()
    flood = [(await shop.create(tenant=ATTACKER, model="dead")).id for _ in range(16)]
    async with shop.worker(slots=2) as working:
        await shop.until(lambda: any(name == "claim_job" for name, _ in working.store.calls))
        wanted = await shop.create(tenant=VICTIM)
        assert (await shop.ended(wanted.id, tenant=VICTIM)).status is Status.COMPLETED
    states = {(await shop.store.describe_job(ATTACKER, job_id)).state for job_id in flood}
    assert states <= {JobState.QUEUED, JobState.RUNNING}
