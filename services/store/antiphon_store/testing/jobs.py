"""Jobs: one holder at a time, takeover after its lease, one end, cancellation."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar, cast

import pytest

from antiphon_core.errors import AlreadyExists, JobNotFound, StaleFence
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import (
    ATTEMPTS_EXHAUSTED,
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    Jobs,
    JobState,
)
from antiphon_core.ports.store import Fence, Precondition
from antiphon_store.testing.event_logs import append_at, logs_of
from antiphon_store.testing.races import race
from antiphon_store.testing.subject import SOON_S, Subject, draft

TTL_MS = 500
RETENTION_MS = 24 * 3600 * 1000  # the default of `job_ttl_s`
HOUR_MS = 3_600_000
CLAIMERS = 8


def jobs_of(store: object) -> Jobs:
    return cast("Jobs", store)


def new_draft(queue: str = "q", **members: object) -> JobDraft:
    job_id = new_response_id(RandomIds())
    return replace(JobDraft(job_id, queue, b"\x00payload of " + job_id.encode()), **members)  # type: ignore[arg-type]


async def enqueue(subject: Subject, queue: str = "q", **members: object) -> JobDraft:
    draft = new_draft(queue, **members)
    await jobs_of(subject.store).enqueue_job(subject.tenant, draft)
    return draft


async def claim(
    subject: Subject, *queues: str, holder: str = "a", ttl_ms: int = TTL_MS, wait_ms: int = 0
) -> Job | None:
    """Claims a job with the second client."""
    return await jobs_of(subject.peer).claim_job(
        subject.tenant, queues or ("q",), holder=holder, lease_ttl_ms=ttl_ms, wait_ms=wait_ms
    )


async def require_job(subject: Subject, **options: object) -> Job:
    job = await claim(subject, **options)  # type: ignore[arg-type]
    assert job is not None
    return job


async def settle(subject: Subject, job: Job, outcome: JobOutcome, reason: str = "") -> None:
    await jobs_of(subject.store).settle_job(subject.tenant, job.fence, outcome, reason=reason)


class JobSuite:
    async def test_a_claimed_job_is_the_one_that_was_enqueued(self, subject: Subject) -> None:
        draft = await enqueue(subject, max_attempts=2)
        job = await require_job(subject)
        assert job == Job(draft.id, "q", draft.payload, 1, 2, False, Fence(draft.id, 1), job.lease_expires_at_ms)
        assert await claim(subject, holder="b") is None

    async def test_the_oldest_job_of_all_queues_is_claimed_first(self, subject: Subject) -> None:
        drafts = []
        for queue in ("q", "r", "s", "r", "q"):
            drafts.append(await enqueue(subject, queue))
            await subject.elapse(1)
        wanted = [draft.id for draft in drafts if draft.queue != "s"]
        for number, job_id in enumerate(wanted):
            job = await claim(subject, "r", "q", holder=f"h{number}")
            assert job is not None
            assert job.id == job_id
        assert await claim(subject, "r", "q", holder="z") is None

    async def test_enqueuing_again_changes_nothing(self, subject: Subject) -> None:
        draft = await enqueue(subject)
        jobs = jobs_of(subject.peer)
        await jobs.enqueue_job(subject.tenant, draft)
        job = await require_job(subject)
        await jobs.enqueue_job(subject.tenant, draft)
        assert await claim(subject, holder="b") is None
        await settle(subject, job, JobOutcome.SUCCEEDED)
        await jobs.enqueue_job(subject.tenant, draft)
        assert await claim(subject) is None
        for other in (replace(draft, payload=b""), replace(draft, queue="r")):
            with pytest.raises(AlreadyExists) as caught:
                await jobs.enqueue_job(subject.tenant, other)
            assert caught.value.facts == {"id": draft.id}

    async def test_an_ended_job_is_forgotten_after_its_retention(self, subject: Subject) -> None:
        draft = await enqueue(subject)
        job = await require_job(subject)
        await settle(subject, job, JobOutcome.SUCCEEDED)
        await subject.elapse(RETENTION_MS - 1)
        await settle(subject, job, JobOutcome.SUCCEEDED)
        await subject.elapse(1)
        with pytest.raises(JobNotFound):
            await settle(subject, job, JobOutcome.SUCCEEDED)
        await jobs_of(subject.store).enqueue_job(subject.tenant, replace(draft, payload=b"anew"))
        assert (await require_job(subject)).payload == b"anew"

    async def test_a_delayed_job_is_not_claimed_before_its_time(self, subject: Subject) -> None:
        later = await enqueue(subject, run_after_ms=TTL_MS)
        sooner = await enqueue(subject)
        assert (await require_job(subject)).id == sooner.id
        assert await claim(subject, holder="b") is None
        await subject.elapse(TTL_MS)
        assert (await require_job(subject, holder="c")).id in (later.id, sooner.id)

    async def test_a_repeated_claim_returns_the_held_job(self, subject: Subject) -> None:
        await enqueue(subject)
        await enqueue(subject)
        job = await require_job(subject)
        await subject.elapse(1)
        again = await require_job(subject)
        assert again == replace(job, lease_expires_at_ms=job.lease_expires_at_ms + 1)
        assert (await require_job(subject, holder="b")).id != job.id
        await settle(subject, job, JobOutcome.SUCCEEDED)
        assert await claim(subject) is None

    async def test_jobs_of_two_tenants_are_separate(self, subject: Subject) -> None:
        draft = await enqueue(subject)
        stranger = replace(subject, tenant=subject.tenant + "-other")
        assert await claim(stranger) is None
        job = await require_job(subject)
        jobs = jobs_of(subject.store)
        with pytest.raises(JobNotFound):
            await jobs.cancel_job(stranger.tenant, draft.id)
        with pytest.raises(JobNotFound):
            await jobs.heartbeat_job(stranger.tenant, job.fence)
        with pytest.raises(JobNotFound):
            await settle(stranger, job, JobOutcome.FAILED)
        await jobs.enqueue_job(stranger.tenant, replace(draft, payload=b"theirs"))
        await jobs.heartbeat_job(subject.tenant, job.fence)

    async def test_a_job_is_described_in_each_state(self, subject: Subject) -> None:
        jobs, draft = jobs_of(subject.peer), await enqueue(subject, max_attempts=2)
        queued = await jobs.describe_job(subject.tenant, draft.id)
        assert queued == JobDescription(draft.id, "q", JobState.QUEUED, 0, 2)
        job = await require_job(subject)
        await jobs_of(subject.store).cancel_job(subject.tenant, draft.id)
        running = await jobs.describe_job(subject.tenant, draft.id)
        assert running == JobDescription(draft.id, "q", JobState.RUNNING, 1, 2, cancel_requested=True)
        await settle(subject, job, JobOutcome.FAILED, "it broke")
        ended = await jobs.describe_job(subject.tenant, draft.id)
        assert (ended.state, ended.attempts, ended.reason) == (JobState.FAILED, 1, "it broke")
        with pytest.raises(JobNotFound):
            await jobs.describe_job(subject.tenant, new_draft().id)

    async def test_a_waiting_claim_gets_a_job_when_it_is_enqueued(self, subject: Subject) -> None:
        for store in (subject.peer, subject.store):
            waiting = asyncio.create_task(claim(subject, "q", "r", wait_ms=20_000))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            draft = new_draft("r")
            await jobs_of(store).enqueue_job(subject.tenant, draft)
            job = await asyncio.wait_for(waiting, SOON_S)
            assert job is not None
            assert job.id == draft.id
            await settle(subject, job, JobOutcome.SUCCEEDED)

    async def test_a_waiting_request_ends_at_its_timeout(self, subject: Subject) -> None:
        assert await asyncio.wait_for(claim(subject, wait_ms=50), SOON_S) is None

    async def test_a_job_that_was_never_enqueued_is_not_found(self, subject: Subject) -> None:
        job_id, jobs = new_draft().id, jobs_of(subject.store)
        fence = Fence(job_id, 1)
        for attempt in (
            jobs.settle_job(subject.tenant, fence, JobOutcome.FAILED),
            jobs.heartbeat_job(subject.tenant, fence),
        ):
            with pytest.raises(JobNotFound) as caught:
                await attempt
            assert caught.value.facts == {"id": job_id}


class JobLeaseSuite:
    rounds: ClassVar[int] = 10

    async def test_a_job_with_a_holder_is_leased_from_the_start(self, subject: Subject) -> None:
        draft = new_draft(holder="first", lease_ttl_ms=TTL_MS)
        job = await jobs_of(subject.store).enqueue_job(subject.tenant, draft)
        assert job is not None
        assert job == Job(draft.id, "q", b"", 1, 3, False, Fence(draft.id, 1), job.lease_expires_at_ms)
        assert await claim(subject, holder="second") is None
        again = await require_job(subject, holder="first")
        assert (again.fence, again.payload) == (job.fence, draft.payload)
        await jobs_of(subject.store).heartbeat_job(subject.tenant, job.fence, lease_ttl_ms=TTL_MS)

    async def test_a_job_that_is_enqueued_again_is_returned_only_to_its_holder(self, subject: Subject) -> None:
        draft = new_draft(holder="first", lease_ttl_ms=TTL_MS)
        job = await jobs_of(subject.store).enqueue_job(subject.tenant, draft)
        assert job is not None
        await subject.elapse(TTL_MS // 2)
        again = await jobs_of(subject.peer).enqueue_job(subject.tenant, draft)
        assert again is not None
        assert (again.fence, again.lease_expires_at_ms > job.lease_expires_at_ms) == (job.fence, True)
        assert await jobs_of(subject.peer).enqueue_job(subject.tenant, replace(draft, holder="second")) is None
        await subject.elapse(TTL_MS)
        assert (await require_job(subject, holder="second")).attempt == 2
        assert await jobs_of(subject.store).enqueue_job(subject.tenant, draft) is None

    async def test_a_heartbeat_keeps_a_job(self, subject: Subject) -> None:
        await enqueue(subject)
        job = await require_job(subject)
        pulse = await jobs_of(subject.store).heartbeat_job(subject.tenant, job.fence, lease_ttl_ms=4 * TTL_MS)
        assert (pulse.cancel_requested, pulse.lease_expires_at_ms) == (False, job.lease_expires_at_ms + 3 * TTL_MS)
        shorter = await jobs_of(subject.store).heartbeat_job(subject.tenant, job.fence, lease_ttl_ms=TTL_MS)
        assert shorter == pulse
        await subject.elapse(2 * TTL_MS)
        assert await claim(subject, holder="b") is None

    async def test_a_job_with_an_expired_lease_is_claimed_again(self, subject: Subject) -> None:
        draft = await enqueue(subject, max_attempts=3)
        tokens = []
        for attempt, holder in enumerate(("a", "b", "b"), start=1):
            job = await require_job(subject, holder=holder)
            assert (job.id, job.attempt) == (draft.id, attempt)
            tokens.append(job.fence.token)
            await subject.elapse(TTL_MS)
        assert tokens == sorted(set(tokens))
        assert await claim(subject) is None

    async def test_heartbeat_and_settlement_with_a_stale_job_fence_are_rejected(self, subject: Subject) -> None:
        await enqueue(subject)
        stale = await require_job(subject)
        await subject.elapse(TTL_MS)
        for _ in range(2):  # before and after the takeover
            with pytest.raises(StaleFence) as caught:
                await jobs_of(subject.store).heartbeat_job(subject.tenant, stale.fence)
            assert caught.value.facts == {"session_id": stale.id, "token": "1"}
            with pytest.raises(StaleFence):
                await settle(subject, stale, JobOutcome.SUCCEEDED)
            await require_job(subject, holder="b")

    async def test_a_job_without_attempts_left_is_not_claimed_again(self, subject: Subject) -> None:
        draft = await enqueue(subject, max_attempts=2)
        await require_job(subject)
        await subject.elapse(TTL_MS)
        await settle(subject, await require_job(subject), JobOutcome.RETRY, "again")
        assert await claim(subject) is None
        assert not await jobs_of(subject.store).cancel_job(subject.tenant, draft.id)

    async def test_a_retried_job_is_claimable_at_once(self, subject: Subject) -> None:
        draft = await enqueue(subject)
        first = await require_job(subject)
        await settle(subject, first, JobOutcome.RETRY, "later")
        second = await require_job(subject)
        assert (second.id, second.attempt, second.fence.token) == (draft.id, 2, 2)
        await settle(subject, first, JobOutcome.RETRY, "later")  # repeated, as after a lost answer
        await jobs_of(subject.store).heartbeat_job(subject.tenant, second.fence)

    @pytest.mark.parametrize("outcome", [JobOutcome.SUCCEEDED, JobOutcome.FAILED, JobOutcome.CANCELLED])
    async def test_a_settled_job_stays_settled(self, subject: Subject, outcome: JobOutcome) -> None:
        await enqueue(subject)
        job = await require_job(subject)
        for _ in range(2):
            await settle(subject, job, outcome, "because")
        other = JobOutcome.FAILED if outcome is JobOutcome.SUCCEEDED else JobOutcome.SUCCEEDED
        with pytest.raises(StaleFence):
            await settle(subject, job, other, "because")
        with pytest.raises(StaleFence):
            await settle(subject, job, outcome, "for another reason")
        with pytest.raises(StaleFence):
            await jobs_of(subject.store).heartbeat_job(subject.tenant, job.fence)
        await subject.elapse(TTL_MS)
        assert await claim(subject) is None

    async def test_writes_under_a_stale_job_fence_are_rejected(self, subject: Subject) -> None:
        job_id = (await enqueue(subject)).id
        first = await require_job(subject)
        logs = logs_of(subject.store)
        await logs.append_events(subject.tenant, append_at(job_id, 0), fence=first.fence)
        await subject.put(draft(tag=job_id), precondition=Precondition(fence=first.fence))
        await subject.elapse(TTL_MS)
        refused: list[Callable[[], Awaitable[object]]] = [
            lambda: logs.append_events(subject.tenant, append_at(job_id, 1), fence=first.fence),
            lambda: subject.put(draft(tag=job_id), precondition=Precondition(fence=first.fence)),
        ]
        for attempt in refused:
            with pytest.raises(StaleFence):
                await attempt()
        second = await require_job(subject, holder="b")
        for attempt in refused:
            with pytest.raises(StaleFence):
                await attempt()
        append: EventAppend = append_at(job_id, 1)
        assert await logs.append_events(subject.tenant, append, fence=second.fence) == 2

    async def test_one_of_many_claimers_gets_the_job(self, subject: Subject) -> None:
        for number in range(self.rounds):
            draft = await enqueue(subject)
            stores = [subject.store, subject.peer] * (CLAIMERS // 2)
            answers, errors = await race(
                *(
                    jobs_of(store).claim_job(subject.tenant, ["q"], holder=f"{number}-{index}")
                    for index, store in enumerate(stores)
                )
            )
            winners = [job for job in answers if job is not None]
            assert [job.id for job in winners] == [draft.id]
            assert not errors
            await settle(subject, winners[0], JobOutcome.SUCCEEDED)

    async def test_many_claimers_get_a_job_each(self, subject: Subject) -> None:
        ids = {(await enqueue(subject)).id for _ in range(CLAIMERS)}
        stores = [subject.store, subject.peer] * CLAIMERS
        answers, errors = await race(
            *(jobs_of(store).claim_job(subject.tenant, ["q"], holder=f"h{index}") for index, store in enumerate(stores))
        )
        assert not errors
        claims = [job.id for job in answers if job is not None]
        assert (len(claims), set(claims)) == (CLAIMERS, ids)


class TenantLineSuite:
    """The queue of background responses, which serves tenants round robin."""

    async def next_job(self, subject: Subject, holder: str) -> Job | None:
        jobs = jobs_of(subject.peer)
        return await jobs.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder=holder, lease_ttl_ms=TTL_MS)

    async def test_tenants_are_served_round_robin(self, subject: Subject) -> None:
        other = replace(subject, tenant=subject.tenant + "-other")
        for _ in range(5):
            await enqueue(subject, DISPATCH_QUEUE)
        await subject.elapse(1)
        await enqueue(other, DISPATCH_QUEUE)
        await subject.elapse(1)
        tenants = []
        for number in range(6):
            job = await self.next_job(subject, f"h{number}")
            assert job is not None
            tenants.append(job.tenant)
            await jobs_of(subject.store).settle_job(job.tenant, job.fence, JobOutcome.SUCCEEDED)
            await subject.elapse(1)
        assert other.tenant in tenants[:2]
        assert await self.next_job(subject, "z") is None

    async def test_a_postponed_job_comes_back_and_counts_no_attempt(self, subject: Subject) -> None:
        await enqueue(subject, DISPATCH_QUEUE)
        job = await self.next_job(subject, "a")
        assert job is not None
        settle_job = jobs_of(subject.store).settle_job
        await settle_job(subject.tenant, job.fence, JobOutcome.POSTPONED, after_ms=TTL_MS)
        assert await self.next_job(subject, "b") is None
        await subject.elapse(TTL_MS)
        again = await self.next_job(subject, "b")
        assert again is not None
        assert (again.id, again.max_attempts - again.attempt) == (job.id, job.max_attempts - job.attempt)
        assert (job.tries, again.tries) == (1, 2)
        await settle_job(subject.tenant, again.fence, JobOutcome.WAITED)
        last = await self.next_job(subject, "a")
        assert last is not None
        assert (last.max_attempts - last.attempt, last.tries) == (job.max_attempts - job.attempt, 2)
        await settle_job(subject.tenant, last.fence, JobOutcome.SUCCEEDED)

    async def test_a_clock_that_is_set_back_strands_no_job(self, subject: Subject) -> None:
        await enqueue(subject, DISPATCH_QUEUE)
        dead = await self.next_job(subject, "dead")
        assert dead is not None
        await subject.elapse(-HOUR_MS)
        job = await self.next_job(subject, "b")
        assert job is not None
        assert (job.id, job.attempt) == (dead.id, 2)
        await jobs_of(subject.store).settle_job(subject.tenant, job.fence, JobOutcome.SUCCEEDED)
        await subject.elapse(HOUR_MS)


class JobCancelSuite:
    async def cancel(self, subject: Subject, job_id: str) -> bool:
        return await jobs_of(subject.store).cancel_job(subject.tenant, job_id)

    async def test_the_cancellation_of_a_held_job_reaches_its_holder(self, subject: Subject) -> None:
        job_id = (await enqueue(subject)).id
        job = await require_job(subject)
        for _ in range(2):
            assert await self.cancel(subject, job_id)
        pulse = await jobs_of(subject.peer).heartbeat_job(subject.tenant, job.fence)
        assert pulse.cancel_requested
        assert (await require_job(subject)).cancel_requested
        await settle(subject, job, JobOutcome.CANCELLED)
        assert await self.cancel(subject, job_id)

    async def test_a_cancelled_job_without_a_holder_ends_at_once(self, subject: Subject) -> None:
        job_id = (await enqueue(subject)).id
        for _ in range(2):
            assert await self.cancel(subject, job_id)
        assert await claim(subject) is None

    @pytest.mark.parametrize("retry", [True, False])
    async def test_a_cancelled_job_has_no_next_attempt(self, subject: Subject, retry: bool) -> None:
        job_id = (await enqueue(subject)).id
        job = await require_job(subject)
        await self.cancel(subject, job_id)
        if retry:
            await settle(subject, job, JobOutcome.RETRY)
        await subject.elapse(TTL_MS)
        assert await claim(subject) is None

    async def test_an_ended_job_cannot_be_cancelled(self, subject: Subject) -> None:
        job_id = (await enqueue(subject)).id
        job = await require_job(subject)
        await settle(subject, job, JobOutcome.SUCCEEDED)
        assert not await self.cancel(subject, job_id)
        with pytest.raises(JobNotFound) as caught:
            await self.cancel(subject, new_draft().id)
        assert "id" in caught.value.facts


class JobStateSuite:
    """The states of jobs that an operator sees."""

    async def test_the_description_follows_the_state_of_a_job(self, subject: Subject) -> None:
        store, job = jobs_of(subject.store), new_draft(max_attempts=2)
        seen: list[JobDescription] = []

        async def look() -> None:
            seen.append(await store.describe_job(subject.tenant, job.id))

        await store.enqueue_job(subject.tenant, job)
        await look()
        for _ in range(2):
            await require_job(subject)
            await look()
            await subject.elapse(TTL_MS)
            await look()
        assert [(each.state, each.attempts, each.reason) for each in seen] == [
            (JobState.QUEUED, 0, ""),
            (JobState.RUNNING, 1, ""),
            (JobState.QUEUED, 1, ""),
            (JobState.RUNNING, 2, ""),
            (JobState.FAILED, 2, ATTEMPTS_EXHAUSTED),
        ]
        await subject.elapse(RETENTION_MS)
        with pytest.raises(JobNotFound):
            await look()

    async def test_an_ended_job_has_its_reason(self, subject: Subject) -> None:
        store, tenant = jobs_of(subject.store), subject.tenant
        for outcome, state, reason in (
            (JobOutcome.SUCCEEDED, JobState.SUCCEEDED, "r"),
            (JobOutcome.FAILED, JobState.FAILED, "r"),
            (JobOutcome.CANCELLED, JobState.CANCELLED, "r"),
            (JobOutcome.RETRY, JobState.FAILED, ATTEMPTS_EXHAUSTED),
        ):
            job = new_draft(max_attempts=1)
            await store.enqueue_job(tenant, job)
            await require_job(subject)
            await store.settle_job(tenant, Fence(job.id, 1), outcome, reason="r")
            found = await store.describe_job(tenant, job.id)
            assert (found.state, found.reason) == (state, reason)
