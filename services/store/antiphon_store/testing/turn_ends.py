"""Commits of turns that also append the last events of a log, or need the lease of a job."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    JobNotFound,
    LogClosed,
    LogNotFound,
    PositionMismatch,
    ResponseNotFound,
    StaleFence,
)
from antiphon_core.jsons import join_arrays
from antiphon_core.ports.jobs import JobOutcome, JobState
from antiphon_core.ports.store import Fence, LogFrames, Precondition, Record, Status, TurnCommit
from antiphon_store.testing import event_logs, jobs
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import SOON_S, Subject, content, draft, new_session_id


def end_at(position: int, count: int = 1) -> LogFrames:
    return LogFrames(position, b"".join(map(event_logs.frame, range(position, position + count))))


async def commit(subject: Subject, record: Record, fence: Fence | None = None, **members: object) -> None:
    await subject.store.commit_turn(subject.tenant, TurnCommit(record, fence, **members))  # type: ignore[arg-type]


class LogEndSuite:
    """The log of a response is closed in the step that writes the record."""

    async def test_a_commit_writes_the_last_events_and_closes_the_log(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        record = draft(session_id=session_id)
        await event_logs.write(subject, event_logs.append_at(record.id, 0, 3), lease.fence)
        await commit(subject, record, lease.fence, log_frames=end_at(3, 2))
        batches = await event_logs.read(subject, record.id)
        assert event_logs.frames_of(batches) == b"".join(map(event_logs.frame, range(5)))
        assert batches[-1].terminal
        assert (await subject.get(record)).version == 1

    async def test_a_commit_can_write_a_whole_log(self, subject: Subject) -> None:
        record = draft()
        await commit(subject, record, log_frames=end_at(0, 2))
        (batch,) = await event_logs.read(subject, record.id)
        assert (batch.count, batch.terminal) == (2, True)

    async def test_a_follower_gets_the_last_events_of_a_commit(self, subject: Subject) -> None:
        record = draft()
        await event_logs.write(subject, event_logs.append_at(record.id, 0))
        reading = asyncio.create_task(event_logs.read(subject, record.id, follow=True))
        await asyncio.sleep(0.02)
        await commit(subject, record, log_frames=end_at(1))
        batches = await asyncio.wait_for(reading, SOON_S)
        assert batches[-1].terminal

    async def test_a_repeated_commit_appends_its_last_events_once(self, subject: Subject) -> None:
        record = draft()
        for _ in range(3):
            await commit(subject, record, log_frames=end_at(0))
        assert sum(batch.count for batch in await event_logs.read(subject, record.id)) == 1
        await subject.elapse(event_logs.LIFETIME_MS)
        await commit(subject, record, log_frames=end_at(0))
        with pytest.raises(LogNotFound):
            await event_logs.read(subject, record.id)

    async def test_a_commit_at_a_wrong_log_position_writes_nothing(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        record = draft(session_id=session_id)
        await event_logs.write(subject, event_logs.append_at(record.id, 0, 2))
        for position in (0, 1, 3):
            with pytest.raises(PositionMismatch):
                await commit(subject, record, lease.fence, log_frames=end_at(position))
        await event_logs.write(subject, event_logs.append_at(record.id, 2, terminal=True))
        with pytest.raises(LogClosed):
            await commit(subject, record, lease.fence, log_frames=end_at(3))
        with pytest.raises(ResponseNotFound):
            await subject.get(record)
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.lease) == (None, lease)

    async def test_a_rejected_commit_leaves_the_log_open(self, subject: Subject) -> None:
        taken, orphan = draft(), draft(draft())
        await subject.put(taken)
        for record, refusal in ((replace(taken, body=b"{}"), AlreadyExists), (orphan, ResponseNotFound)):
            await event_logs.write(subject, event_logs.append_at(record.id, 0))
            with pytest.raises(refusal):
                await commit(subject, record, log_frames=end_at(1))
            assert await event_logs.write(subject, event_logs.append_at(record.id, 1)) == 2

    @pytest.mark.parametrize("is_kept", [False, True], ids=["reclaimed", "kept by another child"])
    async def test_a_turn_whose_parent_was_deleted_is_written_as_a_root(self, subject: Subject, is_kept: bool) -> None:
        line = await subject.put_line(2)
        if is_kept:
            await subject.put_line(1, parent=line[1])
        child = draft(line[1])
        history = await subject.begin_after(line[1])
        await event_logs.write(subject, event_logs.append_at(child.id, 0))
        await subject.delete(line[1])
        with pytest.raises(ResponseNotFound) as caught:
            await commit(subject, child, log_frames=end_at(1))
        assert caught.value.facts == {"id": line[1].id}
        root = replace(child, parent_id=None, input_items=join_arrays([history, child.input_items]))
        for _ in range(2):
            await commit(subject, root, log_frames=end_at(1))
        assert (await event_logs.read(subject, child.id))[-1].terminal
        assert [content(each) for each in await subject.peer.chain(subject.tenant, child.id)] == [content(root)]
        (after,) = await subject.put_line(1, parent=root)
        assert await subject.begin_after(after) == join_history([*line, child, after])

    async def test_a_commit_completes_a_stored_record_and_its_log(self, subject: Subject) -> None:
        record = draft(status=Status.IN_PROGRESS)
        await subject.put(record)
        done = replace(record, status=Status.COMPLETED)
        await commit(subject, done, precondition=Precondition(version=1), log_frames=end_at(0))
        assert (await subject.get(record)).status is Status.COMPLETED
        assert (await event_logs.read(subject, record.id))[-1].terminal

    @pytest.mark.parametrize(
        ("end", "field"),
        [
            (LogFrames(-1, event_logs.frame(0)), "log_frames.expected_position"),
            (LogFrames(0, b""), "log_frames.frames"),
            (LogFrames(0, b"data: no end"), "log_frames.frames"),
        ],
    )
    async def test_an_invalid_log_end_is_rejected(self, subject: Subject, end: LogFrames, field: str) -> None:
        record = draft()
        with pytest.raises(InvalidRequest) as caught:
            await commit(subject, record, log_frames=end)
        assert caught.value.field == field
        with pytest.raises(ResponseNotFound):
            await subject.get(record)


class JobTurnSuite:
    """A turn that a job runs is committed under the job's lease as well."""

    async def test_a_commit_with_a_lost_job_or_session_lease_is_rejected(self, subject: Subject) -> None:
        session_id = new_session_id()
        for is_job_lost in (True, False):
            _history, lease = await subject.begin_in(session_id, lease_ttl_ms=10 * jobs.TTL_MS)
            await jobs.enqueue(subject, id=draft(tag=session_id).id)
            job = await jobs.require_job(subject, ttl_ms=jobs.TTL_MS if is_job_lost else 100 * jobs.TTL_MS)
            await subject.elapse(jobs.TTL_MS if is_job_lost else 10 * jobs.TTL_MS)
            record = draft(session_id=session_id)
            with pytest.raises(StaleFence) as caught:
                await commit(subject, record, lease.fence, precondition=Precondition(fence=job.fence))
            lost = job.fence if is_job_lost else lease.fence
            assert caught.value.facts["session_id"] == lost.session_id
            with pytest.raises(ResponseNotFound):
                await subject.get(record)
            await subject.store.release_session(subject.tenant, lease.fence)
            await self.end(subject)

    async def end(self, subject: Subject) -> None:
        """Settles all jobs that are left in the queue."""
        while job := await jobs.claim(subject, holder="cleaner"):
            await jobs.settle(subject, job, JobOutcome.SUCCEEDED)

    async def test_a_commit_under_the_job_and_session_leases_is_written(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        await jobs.enqueue(subject, id=draft(tag=session_id).id)
        job = await jobs.require_job(subject)
        record = draft(session_id=session_id)
        await commit(subject, record, lease.fence, precondition=Precondition(fence=job.fence), log_frames=end_at(0))
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.lease) == (record.id, None)
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)

    async def test_a_commit_without_a_session_needs_only_the_job_lease(self, subject: Subject) -> None:
        job_draft = await jobs.enqueue(subject)
        job = await jobs.require_job(subject)
        record = replace(draft(), id=job_draft.id)
        await commit(subject, record, precondition=Precondition(fence=job.fence), log_frames=end_at(0))
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        await commit(subject, record, precondition=Precondition(fence=job.fence), log_frames=end_at(0))
        with pytest.raises(StaleFence):
            await commit(subject, draft(record), precondition=Precondition(fence=job.fence))

    @pytest.mark.parametrize("log_frames", [None, end_at(0)], ids=["without a log", "with its log"])
    async def test_a_commit_can_end_its_job(self, subject: Subject, log_frames: LogFrames | None) -> None:
        job_draft = await jobs.enqueue(subject)
        job = await jobs.require_job(subject)
        record = replace(draft(), id=job_draft.id)
        for _ in range(2):  # repeated, as after a lost answer
            await commit(
                subject, record, precondition=Precondition(fence=job.fence), log_frames=log_frames, ends_job=True
            )
            described = await jobs.jobs_of(subject.peer).describe_job(subject.tenant, job.id)
            assert (described.state, described.attempts) == (JobState.SUCCEEDED, 1)
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        await subject.elapse(jobs.TTL_MS)
        assert await jobs.claim(subject, holder="another") is None

    async def test_a_rejected_commit_does_not_end_its_job(self, subject: Subject) -> None:
        record = draft(draft())  # its parent does not exist
        await jobs.enqueue(subject, id=record.id)
        job = await jobs.require_job(subject)
        with pytest.raises(ResponseNotFound):
            await commit(subject, record, precondition=Precondition(fence=job.fence), ends_job=True)
        described = await jobs.jobs_of(subject.peer).describe_job(subject.tenant, job.id)
        assert described.state is JobState.RUNNING

    async def test_a_commit_under_a_job_that_was_taken_over_is_rejected(self, subject: Subject) -> None:
        job_draft = await jobs.enqueue(subject)
        first = await jobs.require_job(subject, holder="first")
        await subject.elapse(jobs.TTL_MS)
        second = await jobs.require_job(subject, holder="second")
        record = replace(draft(), id=job_draft.id)
        with pytest.raises(StaleFence):
            await commit(subject, record, precondition=Precondition(fence=first.fence), log_frames=end_at(0))
        with pytest.raises(LogNotFound):
            await event_logs.read(subject, record.id)
        await commit(subject, record, precondition=Precondition(fence=second.fence), log_frames=end_at(0))

    async def test_the_fence_of_a_forgotten_job_is_stale(self, subject: Subject) -> None:
        job_draft = await jobs.enqueue(subject)
        job = await jobs.require_job(subject)
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        await subject.elapse(jobs.RETENTION_MS)
        with pytest.raises(StaleFence):
            await commit(subject, draft(tag=job.id), precondition=Precondition(fence=job.fence))
        with pytest.raises(JobNotFound):
            await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        assert job_draft.id == job.id
