"""Messages of jobs to values and back; see `antiphon_store.wire`."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobState
from antiphon_core.ports.store import Fence
from antiphon_protos.antiphon.store import v1
from antiphon_store.wire import from_fence, given, to_fence

_OUTCOME_TO_WIRE = {outcome: v1.JobOutcome[outcome.name] for outcome in JobOutcome}
_STATE_TO_WIRE = {state: v1.JobState[state.name] for state in JobState}
_STATE_FROM_WIRE = {wire: state for state, wire in _STATE_TO_WIRE.items()}
_OUTCOME_FROM_WIRE = {wire: outcome for outcome, wire in _OUTCOME_TO_WIRE.items()}


def to_draft(draft: JobDraft) -> v1.EnqueueJobRequest:
    return v1.EnqueueJobRequest(
        id=draft.id,
        queue=draft.queue,
        payload=draft.payload,
        max_attempts=draft.max_attempts,
        run_after_ms=draft.run_after_ms,
    )


def from_draft(message: v1.EnqueueJobRequest) -> JobDraft:
    return JobDraft(
        id=message.id,
        queue=message.queue,
        payload=message.payload,
        max_attempts=message.max_attempts or limits.JOB_ATTEMPTS_ITEMS_DEFAULT,
        run_after_ms=message.run_after_ms,
    )


def to_job(job: Job) -> v1.Job:
    return v1.Job(
        id=job.id,
        queue=job.queue,
        payload=job.payload,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        cancel_requested=job.cancel_requested,
        fence=to_fence(job.fence),
        lease_expires_at_ms=job.lease_expires_at_ms,
    )


def from_job(message: v1.Job) -> Job:
    return Job(
        id=message.id,
        queue=message.queue,
        payload=message.payload,
        attempt=message.attempt,
        max_attempts=message.max_attempts,
        cancel_requested=message.cancel_requested,
        fence=from_fence(given(message.fence, "job.fence")),
        lease_expires_at_ms=message.lease_expires_at_ms,
    )


def from_job_fence(job_id: str, message: v1.Fence | None) -> Fence:
    """The fence of the job that a request names."""
    fence = from_fence(given(message, "fence"))
    if fence.session_id != job_id:
        raise InvalidRequest(
            "'fence.session_id' must be the job's 'id'.", field="fence.session_id", code="invalid_value"
        )
    return fence


def to_outcome(outcome: JobOutcome) -> v1.JobOutcome:
    return _OUTCOME_TO_WIRE[outcome]


def from_outcome(message: v1.JobOutcome) -> JobOutcome:
    outcome = _OUTCOME_FROM_WIRE.get(message)
    if outcome is None:
        problem = "is missing" if not message else f"has the unknown value {int(message)}"
        raise InvalidRequest(f"'outcome' {problem}.", field="outcome")
    return outcome


def to_description(job: JobDescription) -> v1.DescribeJobResponse:
    return v1.DescribeJobResponse(
        id=job.id,
        queue=job.queue,
        state=_STATE_TO_WIRE[job.state],
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        cancel_requested=job.cancel_requested,
        reason=job.reason,
    )


def from_description(message: v1.DescribeJobResponse) -> JobDescription:
    return JobDescription(
        id=message.id,
        queue=message.queue,
        state=_STATE_FROM_WIRE[message.state],
        attempts=message.attempts,
        max_attempts=message.max_attempts,
        cancel_requested=message.cancel_requested,
        reason=message.reason,
    )
