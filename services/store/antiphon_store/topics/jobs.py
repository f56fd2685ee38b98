"""Jobs as their callers see them: what may be enqueued, how long an ended job is remembered, how a claim waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from antiphon_core import limits
from antiphon_core.errors import JobNotFound, RequestRateExceeded
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    Job,
    JobDraft,
    JobOutcome,
    Jobs,
)
from antiphon_core.ports.store import Fence, TurnCommit
from antiphon_store.arguments import checked, handed_on
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rules import jobs as rules
from antiphon_store.settings import StoreSettings
from antiphon_store.values import QueuedJob
from antiphon_store.waiting import WaitingLines

OPEN_JOBS_RETRY_MS = 10_000  # when one of them will end is not known


class JobOperations:
    """The part of StoreService that implements `antiphon_core.ports.jobs.Jobs`."""

    engine: StoreEngine
    _settings: StoreSettings
    _claimers: WaitingLines

    heartbeat_job = handed_on(Jobs.heartbeat_job, "heartbeat_job")
    cancel_job = handed_on(Jobs.cancel_job, "cancel_job")
    describe_job = handed_on(Jobs.describe_job, "describe_job")

    @checked
    async def enqueue_job(self, tenant: str, draft: JobDraft) -> None:
        if draft.queue == DISPATCH_QUEUE:
            await self._require_room_for(tenant, draft)
        places = self._settings.job_places(tenant)
        await self.engine.enqueue_job(tenant, draft, retention_ms=self._settings.job_ttl_s * 1000, places=places)
        self._wake(tenant, draft.queue)

    def _queued_job(self, commit: TurnCommit) -> QueuedJob | None:
        """The job of a turn that a worker will run."""
        if commit.job is None:
            return None
        draft = rules.turn_job(commit.record, commit.job)
        return QueuedJob(draft, self._settings.job_ttl_s * 1000, commit.job.lease_ttl_ms)

    @asynccontextmanager
    async def _handed_in(self, tenant: str, job: QueuedJob | None) -> AsyncIterator[None]:
        """Tells workers of the job that is committed in the block. Where nobody lives to do so, `describe_job` does."""
        if job is None:
            yield
            return
        await self._require_room_for(tenant, job.draft)
        yield
        await self.engine.hand_in(tenant, places=self._settings.job_places(tenant))
        self._wake(tenant, DISPATCH_QUEUE)

    @checked
    async def claim_job(
        self,
        tenant: str,
        queues: Sequence[str],
        *,
        holder: str,
        lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Job | None:
        return await self._claimers.until_there(
            [(tenant, queue) for queue in queues],
            lambda: self.engine.claim_job(tenant, queues, holder=holder, lease_ttl_ms=lease_ttl_ms),
            wait_ms=wait_ms,
        )

    @checked
    async def settle_job(
        self, tenant: str, fence: Fence, outcome: JobOutcome, *, reason: str = "", after_ms: int = 0
    ) -> None:
        queue = await self.engine.settle_job(tenant, fence, outcome, reason, after_ms)
        if queue is not None and after_ms == 0:
            self._wake(tenant, queue)

    async def _require_room_for(self, tenant: str, draft: JobDraft) -> None:
        """RequestRateExceeded: the tenant has as many open background responses as it may, and this is another one."""
        most = self._settings.jobs_per_tenant
        if not most or await self.engine.count_jobs(tenant, draft.queue, limit=most) < most:
            return
        with suppress(JobNotFound):
            await self.engine.describe_job(tenant, draft.id)
            return
        raise RequestRateExceeded(
            f"Rate limit reached on background responses that are not finished: Limit {most}. "
            "Please try again when some of them have ended.",
            retry_after_ms=OPEN_JOBS_RETRY_MS,
        )

    def _wake(self, tenant: str, queue: str) -> None:
        """Tells whoever waits for a job in this process that there may be one."""
        for each in {tenant, DISPATCH_TENANT if queue == DISPATCH_QUEUE else tenant}:
            self._claimers.wake_first((each, queue))
