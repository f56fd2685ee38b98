"""The lease of a job, and what its holder writes under the job's fence.

A lease expires when its holder cannot reach the store for long enough. Then the fence decides, not the clock: the
holder claims the job again, and if that is the very next attempt nobody held it in between, so everything that was
written is its own and the turn goes on. Otherwise the job belongs to another holder, for good.
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
    """The lease of one job. `claim` claims the job, each time in the name of the same holder."""

    def __init__(self, jobs: Jobs, tenant: str, job: Job, claim: Claim) -> None:
        self._jobs = jobs
        self._tenant = tenant
        self._fence = job.fence
        self._claim = claim
        self._is_lost = False
        self._claim_lock = asyncio.Lock()

    async def proven(self, write: Callable[[Fence], Awaitable[T]]) -> T:
        """The result of `write` under the fence that holds now. StaleFence: another holder has the job, or had it."""
        while True:
            fence = self._fence
            try:
                return await write(fence)
            except StaleFence as error:
                if error.facts["session_id"] != fence.session_id:  # a write may bring the fence of a session, too
                    raise
                async with self._claim_lock:
                    if self._fence == fence and not await self._claimed_again():
                        raise

    async def _claimed_again(self) -> bool:
        """Whether the job is held again, and no other holder had it meanwhile."""
        job = None if self._is_lost else await self._claim()
        if job is not None and job.attempt == self._fence.token + 1:
            log.warning("the lease of job %s had expired; nobody else took the job up", job.id)
            self._fence = job.fence
            return True
        if job is not None:
            await self._jobs.settle_job(self._tenant, job.fence, JobOutcome.RETRY)
        self._is_lost = True
        return False
