"""A job as a value, and the steps that it can take, apart from any engine.

    queued ──claim──> held by A, attempt n ──settle──> succeeded, failed, cancelled
       ▲                 │
       └─ retry or time ─┤ attempts used up: failed
                         └ cancellation asked for: cancelled

Time takes steps too, and nobody has to be there for them: `as_of` is the job as time left it. All other functions take
a job as of now. The attempts of a job are its fencing tokens: each claim is one more, so they only grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon_core.errors import StaleFence
from antiphon_core.ports.jobs import (
    ATTEMPTS_EXHAUSTED,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    JobPulse,
    JobState,
)
from antiphon_core.ports.store import Fence
from antiphon_store.backends.leases import NOBODY

_ENDS = {
    JobOutcome.SUCCEEDED: JobState.SUCCEEDED,
    JobOutcome.FAILED: JobState.FAILED,
    JobOutcome.CANCELLED: JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Ending:
    state: JobState
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What the last settled attempt was settled with, for whoever asks again."""

    attempt: int
    outcome: JobOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What is stored of a job, besides its payload. `available_at_ms` is since when it may be claimed if nobody has it;
    once it ended it is remembered for `retention_ms`."""

    id: str
    queue: str
    max_attempts: int
    retention_ms: int
    available_at_ms: int
    attempts: int = 0
    holder: str = NOBODY
    lease_expires_at_ms: int = 0
    cancel_requested: bool = False
    settlement: Settlement | None = None
    ending: Ending | None = None

    @property
    def is_held(self) -> bool:
        return self.holder != NOBODY


def enqueued(draft: JobDraft, *, retention_ms: int, now_ms: int) -> StoredJob:
    return StoredJob(draft.id, draft.queue, draft.max_attempts, retention_ms, now_ms + draft.run_after_ms)


def as_of(job: StoredJob, now_ms: int) -> StoredJob | None:
    """The job as time left it; None when it ended too long ago to be remembered."""
    if job.is_held and job.lease_expires_at_ms <= now_ms:
        job = _given_back(job, job.lease_expires_at_ms)
    if job.ending is not None and job.ending.at_ms + job.retention_ms <= now_ms:
        return None
    return job


def claimable_at_ms(job: StoredJob) -> int | None:
    """When the job can be claimed, if nothing but time happens to it; None for never. Engines sort by it."""
    if job.is_held:
        job = _given_back(job, job.lease_expires_at_ms)
    return job.available_at_ms if job.ending is None else None


def forgettable_at_ms(job: StoredJob) -> int | None:
    """When the job needs to be remembered no longer, if nothing but time happens to it; None for never."""
    if job.is_held:
        job = _given_back(job, job.lease_expires_at_ms)
    return job.ending.at_ms + job.retention_ms if job.ending is not None else None


def claimed(job: StoredJob, *, holder: str, lease_ttl_ms: int, now_ms: int) -> StoredJob:
    """The next attempt of a claimable job, or the running one of the holder that has it, extended."""
    if job.is_held:
        return extended(job, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)
    return replace(job, attempts=job.attempts + 1, holder=holder, lease_expires_at_ms=now_ms + lease_ttl_ms)


def extended(job: StoredJob, *, lease_ttl_ms: int, now_ms: int) -> StoredJob:
    return replace(job, lease_expires_at_ms=max(job.lease_expires_at_ms, now_ms + lease_ttl_ms))


def require(job: StoredJob, fence: Fence) -> None:
    """StaleFence unless the fence is that of the running attempt."""
    if not job.is_held or job.attempts != fence.token:
        raise StaleFence.of(fence.session_id, token=fence.token)


def settled(job: StoredJob, fence: Fence, outcome: JobOutcome, reason: str, *, now_ms: int) -> StoredJob:
    """The job after its attempt; itself when this attempt was settled so before. StaleFence."""
    settlement = Settlement(fence.token, outcome, reason)
    if job.settlement == settlement:
        return job
    require(job, fence)
    job = replace(job, settlement=settlement)
    if outcome is JobOutcome.RETRY:
        return _given_back(job, now_ms)
    return _ended(job, _ENDS[outcome], reason, now_ms)


def cancelled(job: StoredJob, *, now_ms: int) -> StoredJob:
    """The job with the flag raised; ended when nobody holds it."""
    if job.ending is not None:
        return job
    job = replace(job, cancel_requested=True)
    return job if job.is_held else _ended(job, JobState.CANCELLED, "", now_ms)


def heeds_cancellation(job: StoredJob) -> bool:
    """Whether asking for the job's end was not too late: the same answer to whoever asks again."""
    return job.ending is None or job.ending.state is JobState.CANCELLED


def granted(job: StoredJob, payload: bytes) -> Job:
    """What the claimer of a job gets."""
    return Job(
        id=job.id,
        queue=job.queue,
        payload=payload,
        attempt=job.attempts,
        max_attempts=job.max_attempts,
        cancel_requested=job.cancel_requested,
        fence=Fence(job.id, job.attempts),
        lease_expires_at_ms=job.lease_expires_at_ms,
    )


def pulse(job: StoredJob) -> JobPulse:
    return JobPulse(job.cancel_requested, job.lease_expires_at_ms)


def describe(job: StoredJob) -> JobDescription:
    state = job.ending.state if job.ending else JobState.RUNNING if job.is_held else JobState.QUEUED
    reason = job.ending.reason if job.ending else ""
    return JobDescription(job.id, job.queue, state, job.attempts, job.max_attempts, job.cancel_requested, reason)


def _given_back(job: StoredJob, at_ms: int) -> StoredJob:
    """The job without a holder: for the next one, or at its end when there can be none."""
    if job.cancel_requested:
        return _ended(job, JobState.CANCELLED, "", at_ms)
    if job.attempts >= job.max_attempts:
        return _ended(job, JobState.FAILED, ATTEMPTS_EXHAUSTED, at_ms)
    return replace(job, holder=NOBODY, lease_expires_at_ms=0, available_at_ms=at_ms)


def _ended(job: StoredJob, state: JobState, reason: str, at_ms: int) -> StoredJob:
    return replace(job, holder=NOBODY, lease_expires_at_ms=0, ending=Ending(state, reason, at_ms))
