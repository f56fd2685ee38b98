"""The jobs of the store: work that any process may take up, one at a time, until it is done or given up.

    queued ──claim──> running ──settle──> succeeded, failed or cancelled
       ▲                 │
       └─ retry or time ─┴─> failed when all attempts are used up, cancelled when that was asked for

A job is leased by whoever claims it. Its fence has the job's id as `session_id`; the token is the attempt's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from antiphon_core import limits
from antiphon_core.ports.store import Fence

ATTEMPTS_EXHAUSTED = "attempts exhausted"  # the reason of a job that failed because nobody could finish it


DISPATCH_TENANT = "antiphon.dispatch"
"""A tenant of our own. In its queue DISPATCH_QUEUE stand the tenants that have jobs in theirs, and take turns."""
DISPATCH_QUEUE = "responses"
"""The queue of background responses, in each tenant."""


class JobOutcome(StrEnum):
    """How an attempt ended. RETRY: claimable again, until the attempts are used up. POSTPONED: claimable again, and the
    attempt does not count: what the job needs was away. WAITED: as POSTPONED, and nothing was tried."""

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
    """A job to be added. `id` is that of the response it produces; it is not claimable for `run_after_ms` from now."""

    id: str
    queue: str
    payload: bytes
    max_attempts: int = limits.JOB_ATTEMPTS_ITEMS_DEFAULT
    run_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. `attempt` is 1 for the first run. `tenant` names the job's tenant where the job was claimed in
    DISPATCH_TENANT, and is empty otherwise. There one may be given that ended by time, to have its response ended, too:
    it has no lease, and `lease_expires_at_ms` is 0. `tries` counts the attempts so far that did not only wait."""

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
    """How many jobs of DISPATCH_QUEUE are due in all tenants, and for how long the first of them has been."""

    due: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class JobPulse:
    """The answer to a job holder's heartbeat."""

    cancel_requested: bool
    lease_expires_at_ms: int


@dataclass(frozen=True, slots=True)
class JobDescription:
    """A job as it is now. `reason` is what its end was explained with."""

    id: str
    queue: str
    state: JobState
    attempts: int
    max_attempts: int
    cancel_requested: bool = False
    reason: str = ""


class Jobs(Protocol):
    """Every call belongs to one tenant; another tenant's jobs do not exist for it."""

    async def enqueue_job(self, tenant: str, draft: JobDraft) -> None:
        """Adds a job. The same id with the same queue and payload again changes nothing, whatever became of the job.

        AlreadyExists: the id is another job's. RequestRateExceeded: the tenant has as many open jobs in DISPATCH_QUEUE
        as it may."""

    async def claim_job(
        self,
        tenant: str,
        queues: Sequence[str],
        *,
        holder: str,
        lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Job | None:
        """Leases the job of these queues that has been claimable for longest; None when there was none for `wait_ms`.

        A holder has one job at a time: claiming again before it was settled gives the same one, its lease extended.

        In DISPATCH_TENANT the tenants take turns: each claim of DISPATCH_QUEUE gives a job of the next one. There a
        claim whose answer got lost is not repeated: its job is claimable again when the lease has expired."""

    async def heartbeat_job(
        self, tenant: str, fence: Fence, *, lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT
    ) -> JobPulse:
        """Extends the lease, and tells whether somebody asked for the job's end. JobNotFound, StaleFence."""

    async def settle_job(
        self, tenant: str, fence: Fence, outcome: JobOutcome, *, reason: str = "", after_ms: int = 0
    ) -> None:
        """Ends the attempt. The same again changes nothing. A job that is to be claimed again is not claimable for
        `after_ms` from now. JobNotFound, StaleFence."""

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        """Asks for the job's end: its holder sees it at its next heartbeat; without a holder it ends at once.

        False when it had ended before, other than by cancellation. JobNotFound."""

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        """A job as it is now, also when it has ended. JobNotFound: it was never queued, or is forgotten."""
