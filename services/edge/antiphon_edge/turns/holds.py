"""A job in the hands of the edge that runs its turn, and what is written under its fence.

A lease runs out when its holder cannot reach the store for long enough. Then the fence decides, not the clock: the
holder claims the job once more, and if that is the very next attempt nobody had it in between, so all that was written
is its own, and it goes on as if nothing had been. Otherwise the turn is somebody else's, for good.
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


class Hold:
    """One job. `claim` asks for it, each time in the name of the same holder."""

    def __init__(self, jobs: Jobs, tenant: str, job: Job, claim: Claim) -> None:
        self._jobs = jobs
        self._tenant = tenant
        self._fence = job.fence
        self._claim = claim
        self._is_lost = False
        self._door = asyncio.Lock()

    async def proven(self, write: Callable[[Fence], Awaitable[T]]) -> T:
        """What `write` comes to under the fence that holds now. StaleFence: somebody else has the job, or had it."""
        while True:
            fence = self._fence
            try:
                return await write(fence)
            except StaleFence as error:
                if error.facts["session_id"] != fence.session_id:  # a write may bring the fence of a session, too
                    raise
                async with self._door:
                    if self._fence == fence and not await self._claimed_again():
                        raise

    async def _claimed_again(self) -> bool:
        """Whether the job is held again, and nobody else held it meanwhile."""
        job = None if self._is_lost else await self._claim()
        if job is not None and job.attempt == self._fence.token + 1:
            log.warning("the lease of job %s had run out; nobody else took it up", job.id)
            self._fence = job.fence
            return True
        if job is not None:
            await self._jobs.settle_job(self._tenant, job.fence, JobOutcome.RETRY)
        self._is_lost = True
        return False
