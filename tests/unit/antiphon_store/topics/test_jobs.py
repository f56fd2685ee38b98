"""Queues: tickets lead to jobs in their trees, and unused tickets return."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import JobNotFound, StoreUnavailable
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    PAYLOAD_DAMAGED,
    Job,
    JobDraft,
    JobOutcome,
    JobState,
    QueueHead,
)
from antiphon_core.ports.store import Fence
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import File, Get, Index, Kind, Partition, Program, Ref
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft
from antiphon_store.topics.trees import tree_of
from tests.support.rows import SpiedRows

T = "t"


async def enqueue(store: StoreService, count: int, queue: str = "q", **options: Any) -> list[str]:
    ids = []
    for _ in range(count):
        ids.append(draft().id)
        await store.enqueue_job(T, JobDraft(ids[-1], queue, b"p", **options))
    return ids


async def claim(
    store: StoreService, holder: str = "a", queues: tuple[str, ...] = ("q",), ttl_ms: int = 10_000
) -> Job | None:
    return await store.claim_job(T, queues, holder=holder, lease_ttl_ms=ttl_ms)


async def test_jobs_of_many_trees_are_claimed_once_each(store: StoreService) -> None:
    ids = await enqueue(store, 10)
    jobs = await asyncio.gather(*(claim(store, str(number)) for number in range(12)))
    assert sorted(job.id for job in jobs if job is not None) == sorted(ids)


async def test_tickets_that_were_taken_and_not_used_are_due_at_once(store: StoreService) -> None:
    await enqueue(store, 3)
    found = [await claim(store, holder) for holder in "abc"]  # no time passes
    assert all(found)
    assert await claim(store, "d") is None


async def test_the_job_that_waited_longest_in_any_queue_is_claimed_first(
    store: StoreService, clock: ManualClock
) -> None:
    expected = []
    for queue in ("r", "q", "r"):
        expected += await enqueue(store, 1, queue)
        clock.advance(0.001)
    found = [await claim(store, holder, ("q", "r")) for holder in "abc"]
    assert [job.id for job in found if job] == expected


async def test_a_ticket_without_a_job_does_not_change_the_order_of_queues(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    """A backend on several servers leaves such a ticket when it rejects a job."""
    await rows.transact(Partition(T, ""), Program(changes=[File(Index.QUEUE, "q", draft().id)]))
    expected = []
    for queue in ("q", "r"):
        clock.advance(0.001)
        expected += await enqueue(store, 1, queue)
    found = [await claim(store, holder, ("q", "r")) for holder in "ab"]
    assert [job.id for job in found if job] == expected


async def test_a_holder_gets_its_own_job_again(store: StoreService) -> None:
    await enqueue(store, 2)
    first = await claim(store)
    again = await claim(store)
    assert first is not None
    assert again is not None
    assert (again.id, again.attempt) == (first.id, 1)


async def test_a_ticket_of_a_lost_holder_is_due_when_its_lease_is_over(store: StoreService, clock: ManualClock) -> None:
    (job_id,) = await enqueue(store, 1)
    first = await claim(store)
    assert first is not None
    clock.advance(5)
    await store.heartbeat_job(T, first.fence, lease_ttl_ms=10_000)
    clock.advance(9)
    assert await claim(store, "b") is None  # the ticket was early, and is moved
    clock.advance(1)
    second = await claim(store, "b")
    assert second is not None
    assert (second.id, second.attempt) == (job_id, 2)


async def test_a_crash_between_ticket_and_claim_only_hides_the_ticket(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    (job_id,) = await enqueue(store, 1)

    async def crash(*_: object) -> None:
        rows.before_transact = None
        raise ConnectionError

    rows.before_transact = crash
    with pytest.raises(ConnectionError):
        await claim(store)
    assert await claim(store) is None
    clock.advance(1)
    found = await claim(store)
    assert found is not None
    assert (found.id, found.attempt) == (job_id, 1)


LOST = StoreUnavailable("The store cannot be used: Redis cannot be reached.")


@pytest.mark.parametrize("error", [LOST, asyncio.CancelledError()], ids=["unavailable", "cancelled"])
@pytest.mark.parametrize("step", ["take_due", "transact"])
@pytest.mark.parametrize("tenant", [T, DISPATCH_TENANT])
async def test_a_job_whose_claim_failed_is_claimed_by_the_next_claim(
    store: StoreService,
    rows: SpiedRows,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    tenant: str,
    error: BaseException,
) -> None:
    """A restart of Redis lost the answer that named the ticket, or the claim itself: the job waited for a second."""
    (job_id,) = await enqueue(store, 1, DISPATCH_QUEUE)
    done = getattr(rows, step)

    async def lost(*arguments: Any, **options: Any) -> Any:
        if step == "take_due" and arguments[0] != T:
            return await done(*arguments, **options)
        if step == "take_due":
            await done(*arguments, **options)
        raise error

    with monkeypatch.context() as outage:
        outage.setattr(rows, step, lost)
        with pytest.raises(type(error)):
            await store.claim_job(tenant, [DISPATCH_QUEUE], holder="a")
    found = await store.claim_job(tenant, [DISPATCH_QUEUE], holder="b")
    assert found is not None
    assert found.id == job_id


async def test_hidden_tickets_are_looked_for_once_and_due_jobs_only_are_claimed(
    store: StoreService, rows: SpiedRows, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    await enqueue(store, 1, run_after_ms=500)
    with monkeypatch.context() as outage:
        outage.setattr(rows, "take_due", AsyncMock(side_effect=LOST))
        with pytest.raises(StoreUnavailable):
            await claim(store)
    rows.forget_calls()
    assert await claim(store) is None
    assert "transact" in rows.calls
    rows.forget_calls()
    assert await claim(store) is None
    assert "transact" not in rows.calls
    clock.advance(0.5)
    assert await claim(store) is not None


async def test_a_claim_from_an_empty_queue_takes_three_index_reads_and_no_program(
    store: StoreService, rows: SpiedRows
) -> None:
    assert await claim(store) is None
    assert rows.calls == ["page", "take_due", "page"]


async def test_a_retried_job_is_claimed_again_at_once(store: StoreService) -> None:
    await enqueue(store, 1)
    first = await claim(store)
    assert first is not None
    await store.settle_job(T, first.fence, JobOutcome.RETRY)
    second = await claim(store, "b")
    assert second is not None
    assert second.fence == Fence(first.id, 2)
    await store.settle_job(T, second.fence, JobOutcome.SUCCEEDED)
    assert await claim(store, "b") is None


async def test_the_queue_head_counts_due_jobs_of_all_tenants(store: StoreService, clock: ManualClock) -> None:
    assert await store.queue_head(limit=10) == QueueHead(0, 0)
    for tenant in ("a", "a", "b"):
        draft_ = JobDraft(draft().id, DISPATCH_QUEUE, b"p")
        await store.enqueue_job(tenant, draft_)
        clock.advance(1)
    assert await store.queue_head(limit=10) == QueueHead(3, 3_000)
    assert (await store.queue_head(limit=2)).due == 2
    await store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder="h", lease_ttl_ms=10_000)
    assert (await store.queue_head(limit=10)).due == 2


async def test_a_job_enqueued_in_this_process_wakes_a_waiting_claimer(rows: SpiedRows) -> None:
    store = StoreService(rows, StoreSettings(job_poll_ms=3_600_000))
    waiting = asyncio.create_task(store.claim_job(T, ["q"], holder="a", wait_ms=60_000))
    await asyncio.sleep(0.01)
    job_draft = JobDraft(draft().id, "q", b"p")
    await store.enqueue_job(T, job_draft)
    job = await asyncio.wait_for(waiting, 30)
    assert job is not None
    assert job.id == job_draft.id


async def test_the_job_ttl_setting_limits_how_long_an_ended_job_is_kept(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(job_ttl_s=5))
    job_draft = JobDraft(draft().id, "q", b"p")
    await store.enqueue_job(T, job_draft)
    assert await store.cancel_job(T, job_draft.id)
    clock.advance(4.999)
    assert await store.cancel_job(T, job_draft.id)
    clock.advance(0.001)
    with pytest.raises(JobNotFound):
        await store.cancel_job(T, job_draft.id)


def spoil_payload(rows: SpiedRows, job_id: str) -> None:
    """Changes the last byte of the stored payload of a job."""
    stored, ref = rows.rows.trees[tree_of(T, job_id)].rows, Ref(Kind.JOB, job_id)
    body = stored[ref].body
    stored[ref] = stored[ref]._replace(body=body[:-1] + bytes([body[-1] ^ 1]))


async def test_job_with_a_damaged_sealed_payload_fails_once_and_others_are_claimed(
    rows: SpiedRows, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = StoreService(seal_rows(rows, SealingKeys.ephemeral()))
    damaged = await enqueue(store, 1)
    clock.advance(1)
    whole = await enqueue(store, 1)
    spoil_payload(rows, damaged[0])
    job = await claim(store)
    assert job is not None
    assert (job.id, job.payload) == (whole[0], b"p")
    clock.advance(60)
    assert (await store.describe_job(T, damaged[0])).state is JobState.FAILED
    assert (await store.describe_job(T, damaged[0])).reason == PAYLOAD_DAMAGED
    (line,) = [each for each in caplog.records if "ends as failed" in each.getMessage()]
    assert damaged[0] in line.getMessage()
    assert line.__dict__["remedy"]


async def test_worker_gets_the_failed_job_of_a_damaged_payload_without_a_lease(rows: SpiedRows) -> None:
    store = StoreService(seal_rows(rows, SealingKeys.ephemeral()))
    (job_id,) = await enqueue(store, 1, DISPATCH_QUEUE)
    spoil_payload(rows, job_id)
    job = await store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder="a")
    assert job is not None
    assert (job.id, job.tenant, job.lease_expires_at_ms) == (job_id, T, 0)
    assert await store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder="a") is None


@pytest.mark.parametrize("wrong", [{}, {"ephemeral": b"\x01" * 32}], ids=["missing", "another under its id"])
async def test_job_whose_key_is_missing_or_wrong_waits_for_the_key_and_others_are_claimed(
    rows: SpiedRows, clock: ManualClock, wrong: dict[str, bytes]
) -> None:
    former, present = SealingKeys.ephemeral(), SealingKeys("present", {"present": bytes(32), **wrong})
    waiting = await enqueue(StoreService(seal_rows(rows, former)), 1)
    store = StoreService(seal_rows(rows, present))
    clock.advance(1)
    others = await enqueue(store, 1)
    job = await claim(store)
    assert job is not None
    assert job.id == others[0]
    clock.advance(60)
    found = await claim(StoreService(seal_rows(rows, former)), "b")
    assert found is not None
    assert found.id == waiting[0]


async def test_job_whose_payload_is_damaged_can_be_cancelled_by_its_id(rows: SpiedRows) -> None:
    store = StoreService(seal_rows(rows, SealingKeys.ephemeral()))
    (job_id,) = await enqueue(store, 1)
    spoil_payload(rows, job_id)
    assert await store.cancel_job(T, job_id)
    assert (await store.describe_job(T, job_id)).state is JobState.CANCELLED


async def test_heartbeats_and_ends_of_jobs_read_no_payload(store: StoreService, rows: SpiedRows) -> None:
    await enqueue(store, 1)
    job = await claim(store)
    assert job is not None
    rows.forget_calls()
    await store.heartbeat_job(T, job.fence, lease_ttl_ms=10_000)
    await store.describe_job(T, job.id)
    await store.cancel_job(T, job.id)
    await store.settle_job(T, job.fence, JobOutcome.CANCELLED)
    reads = [each for _, program in rows.programs for each in program.reads]
    assert reads
    assert not [each for each in reads if not isinstance(each, Get) or each.payload]
