"""The lease of a job: every write of its holder carries the job's fence.

A lease expires when its holder cannot reach the store for too long. Then the fence decides, not the clock: the holder
claims the job again. If the claim is the very next attempt, no other holder had the job in between, so the turn goes
on. Otherwise the lease is lost for good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from antiphon_core.errors import StaleFence
from antiphon_core.ports.jobs import Job, JobOutcome, Jobs
from antiphon_core.ports.store import Fence

log = logging.getLogger(__name__)

Claim = Callable[[], Awaitable[Job | None]]
T = TypeVar("T")


class JobLease:
    """The lease of one job. `claim` claims the job for the same holder each time."""

    def __init__(self, jobs: Jobs, tenant: str, job: Job, claim: Claim) -> None:
        self._jobs = jobs
        self._tenant = tenant
        self._fence = job.fence
        self._claim = claim
        self._is_lost = False
        self._claim_lock = asyncio.Lock()

    async def under_fence(self, write: Callable[[Fence], Awaitable[T]]) -> T:
        """Calls `write` with the job's current fence, and again with the next one if the lease had expired. StaleFence:
        another holder has the job, or had it; or the fence of a session, which `write` also carries, is stale."""
        while True:
            fence = self._fence
            try:
                return await write(fence)
            except StaleFence as error:
                if error.facts["session_id"] != fence.session_id:  # the session's fence is stale
                    raise
                async with self._claim_lock:
                    if self._fence == fence and not await self._claim_again():
                        raise

    async def _claim_again(self) -> bool:
        """Claims the job again. Returns whether this holder has it, and no other holder had it meanwhile."""
        job = None if self._is_lost else await self._claim()
        if job is not None and job.attempt == self._fence.token + 1:
            log.warning("the lease of job %s had expired; no other holder had claimed the job", job.id)
            self._fence = job.fence
            return True
        if job is not None:
            await self._jobs.settle_job(self._tenant, job.fence, JobOutcome.RETRY)
        self._is_lost = True
        return False
