"""The operations of jobs (`decisions.jobs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.store import Fence


class JobAtoms(Protocol):
    """JobNotFound: the id was never enqueued, or the job ended longer ago than it is remembered."""

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int, places: int = 1) -> None:
        """Adds a job that will be remembered for `retention_ms` after its end. In one step with the look whether the id
        is taken. AlreadyExists: by a job with another queue or payload. `places`: how often the tenant stands in the
        line of tenants, where the job is one of DISPATCH_QUEUE."""

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        """The job of these queues that `holder` has, else the one that has been claimable for longest, with the next
        fencing token. Of any number of claimers one gets it. In DISPATCH_TENANT: a job of the next tenant in line."""

    async def heartbeat_job(self, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        """Extends a living lease; never shortens it. JobNotFound, StaleFence."""

    async def settle_job(
        self, tenant: str, fence: Fence, outcome: JobOutcome, reason: str, after_ms: int = 0
    ) -> str | None:
        """Ends the attempt, in one step with the look at the fence: the queue in which the job waits again, for
        `after_ms` at least. JobNotFound, StaleFence."""

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        """Raises the flag, and ends a job that nobody holds, in one step. JobNotFound."""

    async def count_jobs(self, tenant: str, queue: str, *, limit: int) -> int:
        """The open jobs of a queue, counted up to `limit`: those that wait and those that run."""

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        """The job as it is now; for operators and tests. JobNotFound."""
