"""The port of jobs: queued work that one process at a time leases and runs.

    queued ──claim──> running ──settle──> succeeded, failed or cancelled
       ▲                 │
       └── retry, or ────┴─> failed when all attempts are used up, cancelled if that was requested
        the lease expires

The process that claims a job gets its lease. The fence has the job's id as `session_id` and the number of the attempt
as `token`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import (
    Holder,
    LeaseTtlMs,
    QueueName,
    Reason,
    ResponseId,
    Tenant,
    WaitMs,
    check_response_id,
    count_within,
    part,
    within,
)
from antiphon_core.ports.store import Fence, JobAttempts, JobPayload

ATTEMPTS_EXHAUSTED = "attempts exhausted"  # the reason of a job that failed because no attempt finished it
PAYLOAD_DAMAGED = "its stored request is damaged"  # the reason of a job that failed because it could not be read

DISPATCH_TENANT = "antiphon.dispatch"
"""A tenant of Antiphon's own. Its DISPATCH_QUEUE lists the tenants that have jobs in their own DISPATCH_QUEUE, so that
claims go round robin over tenants."""
DISPATCH_QUEUE = "responses"
"""The queue of background responses of each tenant."""


def _check_names_job(fence: Fence, field: str) -> None:
    check_response_id(fence.session_id, part(field, "session_id"))


JobFence = Annotated[Fence, _check_names_job]
"""The fence of a job, with the job's id as `session_id`."""
JobDelayMs = Annotated[int, within(0, limits.JOB_DELAY_MS_MAX)]


class JobOutcome(StrEnum):
    """The outcome of an attempt. RETRY: the job is claimable again until its attempts are used up. POSTPONED: it is
    claimable again and the attempt does not count, because a service that it needs was unavailable. WAITED: like
    POSTPONED, and the job was not even tried."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    FAILED = "failed"
    CANCELLED = "cancelled"
    POSTPONED = "postponed"
    WAITED = "waited"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job to enqueue. `id` is that of the response it produces; the job is claimable after `run_after_ms`. With a
    `holder` the job is leased to it from the start."""

    id: ResponseId
    queue: QueueName
    payload: JobPayload
    max_attempts: JobAttempts = limits.JOB_ATTEMPTS_ITEMS_DEFAULT
    run_after_ms: JobDelayMs = 0
    holder: Holder | None = None
    lease_ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. `attempt` is 1 for the first claim; `tries` counts the attempts that did not end as WAITED.

    `tenant` is the job's tenant if the job was claimed in DISPATCH_TENANT, and empty otherwise. Such a claim may also
    return a job that ended when its last lease expired, or because its payload is damaged, so that the worker can end
    its response: this job has no lease, and `lease_expires_at_ms` is 0."""

    id: str
    queue: str
    payload: bytes
    attempt: int
    max_attempts: int
    cancel_requested: bool
    fence: Fence
    lease_expires_at_ms: int
    tenant: str = ""
    tries: int = 1


@dataclass(frozen=True, slots=True)
class QueueHead:
    """The number of due jobs in DISPATCH_QUEUE of all tenants, and the time since the first of them is due."""

    due: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class JobPulse:
    """The answer to a heartbeat of a job's holder."""

    cancel_requested: bool
    lease_expires_at_ms: int


@dataclass(frozen=True, slots=True)
class JobDescription:
    """The current state of a job. `reason` is the explanation that came with its end."""

    id: str
    queue: str
    state: JobState
    attempts: int
    max_attempts: int
    cancel_requested: bool = False
    reason: str = ""


class Jobs(Protocol):
    """Every call belongs to one tenant; another tenant's jobs do not exist for it."""

    async def enqueue_job(self, tenant: Tenant, draft: JobDraft) -> Job | None:
        """Adds a job, and returns it, without its payload, if its holder has it. Idempotent for the same id, queue and
        payload, even after the job has ended; a repeated call extends the lease that the holder has.

        AlreadyExists: the id is another job's. RequestRateExceeded: the tenant has the most open jobs in DISPATCH_QUEUE
        that it may have."""

    async def claim_job(
        self,
        tenant: Tenant,
        queues: Annotated[Sequence[QueueName], count_within(1, limits.CLAIM_QUEUES_ITEMS_MAX)],
        *,
        holder: Holder,
        lease_ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: WaitMs = 0,
    ) -> Job | None:
        """Leases the job of these queues that has been claimable for longest; None if there is none within `wait_ms`.

        A holder has one job at a time: claiming again before the job is settled returns the same job and extends its
        lease.

        In DISPATCH_TENANT claims go round robin over tenants: each claim of DISPATCH_QUEUE returns a job of the next
        tenant. Such a claim is not repeatable. If its answer is lost, the job is claimable again after its lease."""

    async def heartbeat_job(
        self, tenant: Tenant, fence: JobFence, *, lease_ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT
    ) -> JobPulse:
        """Extends the lease and returns whether a cancellation was requested. JobNotFound, StaleFence."""

    async def settle_job(
        self, tenant: Tenant, fence: JobFence, outcome: JobOutcome, *, reason: Reason = "", after_ms: JobDelayMs = 0
    ) -> None:
        """Ends the attempt. Idempotent. A job that is to be claimed again is claimable after `after_ms`. JobNotFound,
        StaleFence."""

    async def cancel_job(self, tenant: Tenant, job_id: ResponseId) -> bool:
        """Requests the cancellation of a job. Its holder sees the request at the next heartbeat; a job without a holder
        ends at once.

        False if the job had already ended, other than by cancellation. JobNotFound."""

    async def describe_job(self, tenant: Tenant, job_id: ResponseId) -> JobDescription:
        """The current state of a job, also of one that has ended. JobNotFound: it was never enqueued, or is deleted."""
