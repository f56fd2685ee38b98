"""Queued turns: record, events, job and lease are written in one step, and workers find the job."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    InvalidRequest,
    LogNotFound,
    ResponseNotFound,
    StaleFence,
)
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job, JobOutcome
from antiphon_core.ports.store import Fence, LogFrames, Precondition, Record, Status, TurnCommit, TurnJob
from antiphon_store.testing import event_logs, jobs
from antiphon_store.testing.subject import Subject, draft, new_session_id

WAITING_MS = 600_000
JOB = TurnJob(b"payload", 5, WAITING_MS)
OPENING = LogFrames(0, event_logs.frame(0) + event_logs.frame(1))


def queued_record(session_id: str | None = None) -> Record:
    return replace(draft(session_id=session_id), status=Status.QUEUED)


def accepting_commit(record: Record, fence: Fence | None = None) -> TurnCommit:
    return TurnCommit(record, precondition=Precondition(version=0, fence=fence), log_frames=OPENING, job=JOB)


async def accept(subject: Subject, commit: TurnCommit) -> None:
    await subject.store.commit_turn(subject.tenant, commit)


async def job_of(subject: Subject) -> Job | None:
    return await jobs.jobs_of(subject.store).claim_job(subject.tenant, [DISPATCH_QUEUE], holder="worker")


async def job_for_workers(subject: Subject, record: Record) -> Job | None:
    """Claims the job of a response by the tenant DISPATCH_TENANT, as workers do; None if it is not found."""
    jobs_ = jobs.jobs_of(subject.store)
    found: list[Job] = []
    while True:  # other tenants may have jobs, too
        job = await jobs_.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder=f"worker-{len(found)}")
        if job is None or job.id == record.id:
            break
        found.append(job)
    for each in found:
        if each.lease_expires_at_ms:
            await jobs_.settle_job(each.tenant, each.fence, JobOutcome.SUCCEEDED)
    return job


class QueuedTurnSuite:
    """A queued turn is accepted completely, or not at all."""

    async def test_accepting_a_queued_turn_writes_record_events_job_and_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        record = queued_record(session_id)
        await accept(subject, accepting_commit(record, lease.fence))
        assert (await subject.get(record)).status is Status.QUEUED
        (batch,) = await event_logs.read(subject, record.id, follow=False)
        assert (batch.count, batch.terminal) == (2, False)
        kept = (await subject.store.describe_session(subject.tenant, session_id)).lease
        assert kept is not None
        assert kept.fence == lease.fence
        assert kept.expires_at_ms >= lease.expires_at_ms + WAITING_MS // 2
        job = await job_of(subject)
        assert job is not None
        assert (job.id, job.payload, job.max_attempts) == (record.id, b"payload", 5)

    async def test_workers_find_the_job_of_a_queued_turn(self, subject: Subject) -> None:
        record = queued_record()
        await accept(subject, accepting_commit(record))
        job = await job_for_workers(subject, record)
        assert job is not None
        assert (job.tenant, job.payload) == (subject.tenant, b"payload")

    async def test_accepting_a_queued_turn_again_changes_nothing(self, subject: Subject) -> None:
        record = queued_record()
        for _ in range(2):
            await accept(subject, accepting_commit(record))
        (batch,) = await event_logs.read(subject, record.id, follow=False)
        assert batch.count == 2
        job = await job_of(subject)
        assert job is not None
        assert job.attempt == 1

    @pytest.mark.parametrize("refused_by", ["parent", "fence", "job"])
    async def test_a_rejected_queued_turn_leaves_nothing(self, subject: Subject, refused_by: str) -> None:
        record, fence = queued_record(), None
        expected: type[AntiphonError] = AlreadyExists
        if refused_by == "parent":
            record, expected = replace(draft(draft()), status=Status.QUEUED), ResponseNotFound
        elif refused_by == "fence":
            record, expected = queued_record(new_session_id()), StaleFence
            fence = Fence(record.session_id or "", 7)
        else:
            await jobs.enqueue(subject, id=record.id)
        with pytest.raises(expected):
            await accept(subject, accepting_commit(record, fence))
        with pytest.raises(ResponseNotFound):
            await subject.get(record)
        with pytest.raises(LogNotFound):
            await event_logs.read(subject, record.id, follow=False)
        assert await job_of(subject) is None
        assert await job_for_workers(subject, record) is None

    async def test_a_rejected_queued_turn_can_be_accepted_later(self, subject: Subject) -> None:
        parent = draft()
        record = replace(draft(parent), status=Status.QUEUED)
        with pytest.raises(ResponseNotFound):
            await accept(subject, accepting_commit(record))
        await subject.put(parent)
        await accept(subject, accepting_commit(record))
        assert await job_for_workers(subject, record) is not None

    @pytest.mark.parametrize(
        ("job", "status", "field"),
        [
            (replace(JOB, max_attempts=0), Status.QUEUED, "job.max_attempts"),
            (replace(JOB, lease_ttl_ms=0), Status.QUEUED, "job.lease_ttl_ms"),
            (JOB, Status.COMPLETED, "record.status"),
        ],
    )
    async def test_an_invalid_job_is_rejected(self, subject: Subject, job: TurnJob, status: Status, field: str) -> None:
        record = replace(draft(), status=status)
        with pytest.raises(InvalidRequest) as caught:
            await accept(subject, replace(accepting_commit(record), job=job))
        assert caught.value.field == field
        assert await job_for_workers(subject, record) is None
