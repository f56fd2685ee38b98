"""Leases of sessions and jobs: every write of a holder carries the fence of its lease, and tasks renew the lease.

All leases of one pace are renewed at the same moments, so that renewals share a transaction of the store. A failed
renewal is retried soon, because the lease outlives a short outage. Only the store decides that a lease is lost
(StaleFence), never the clock.

A job's lease also expires when its holder cannot reach the store for too long. An edge then claims the job again. If
the claim is the very next attempt, no other holder had the job in between, so the turn goes on. Otherwise the lease is
lost for good. A worker claims from the queue of all tenants, which cannot name one job, so its lease is lost at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from antiphon_core.errors import AntiphonError, StaleFence
from antiphon_core.ports.jobs import Job, JobOutcome, JobPulse, Jobs
from antiphon_core.ports.store import Fence
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

Claim = Callable[[], Awaitable[Job | None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RenewalPace:
    """Seconds between two renewals, and from a failed renewal to the next attempt."""

    every_s: float
    retry_s: float


def _ignore(_error: StaleFence) -> None:
    """The default for `on_lost`: the store rejects the writes of a holder that has lost its lease."""


@asynccontextmanager
async def keep_renewed(
    name: str,
    renew: Callable[[], Awaitable[object]],
    pace: RenewalPace,
    on_lost: Callable[[StaleFence], None] = _ignore,
) -> AsyncIterator[None]:
    """Calls `renew` at the given pace until the block is left.

    When `renew` raises StaleFence, `on_lost` is called and the lease is not renewed any more. Other errors are logged,
    and the renewal is retried after `pace.retry_s`. `name` names the lease in the log.
    """
    keeper = asyncio.create_task(_renew(name, renew, pace, on_lost), name=f"lease of {name}")
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])


class JobLease:
    """The lease of one job. `claim` claims the job again for the same holder; None: the holder cannot name the job."""

    def __init__(self, jobs: Jobs, tenant: str, job: Job, claim: Claim | None = None) -> None:
        self.fence = job.fence
        """The current fence."""
        self._jobs = jobs
        self._tenant = tenant
        self._claim = claim
        """None: the job cannot be claimed again."""
        self._claim_lock = asyncio.Lock()
        self._renewals = AsyncExitStack()
        self._has_ended = False

    async def under_fence(self, write: Callable[[Fence], Awaitable[T]]) -> T:
        """Calls `write` with the job's current fence, and again with the next one if the lease had expired. StaleFence:
        another holder has the job, or had it; or the fence of a session, which `write` also carries, is stale."""
        while True:
            fence = self.fence
            try:
                return await write(fence)
            except StaleFence as error:
                if error.facts["session_id"] != fence.session_id:  # the session's fence is stale
                    raise
                async with self._claim_lock:
                    if self.fence == fence and not await self._claim_again():
                        raise

    async def renew(self, *, ttl_ms: int) -> JobPulse:
        """Extends the lease, and returns whether a client cancelled the job. StaleFence, JobNotFound."""
        if self._has_ended:
            return JobPulse(cancel_requested=False, lease_expires_at_ms=0)
        return await self.under_fence(lambda fence: self._jobs.heartbeat_job(self._tenant, fence, lease_ttl_ms=ttl_ms))

    @asynccontextmanager
    async def run_renewals(self, *renewals: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """Runs `renewals`, of the job's lease and of others that its turn needs, until the block is left or the job is
        settled."""
        for renewal in renewals:
            await self._renewals.enter_async_context(renewal)
        try:
            yield
        finally:
            await self._renewals.aclose()

    @property
    def has_ended(self) -> bool:
        """Whether a write of the holder has ended the job."""
        return self._has_ended

    def note_end(self) -> None:
        """Notes that a write of the holder has ended the job: there is nothing left to renew or to settle."""
        self._has_ended = True

    async def settle(self, outcome: JobOutcome, *, reason: str = "", after_ms: int = 0) -> None:
        """Ends the attempt, after its renewals: a renewal of a job that waits again would claim it again. StaleFence:
        another holder has the job, or had it. JobNotFound."""
        await self._renewals.aclose()
        if not self._has_ended:
            await self.under_fence(
                lambda fence: self._jobs.settle_job(self._tenant, fence, outcome, reason=reason, after_ms=after_ms)
            )

    async def _claim_again(self) -> bool:
        """Claims the job again. Returns whether this holder has it, and no other holder had it meanwhile."""
        job = await self._claim() if self._claim is not None else None
        if job is not None and job.attempt == self.fence.token + 1:
            log.warning("the lease of job %s had expired; no other holder had claimed the job", job.id)
            self.fence = job.fence
            return True
        if job is not None:
            await self._jobs.settle_job(self._tenant, job.fence, JobOutcome.RETRY)
        self._claim = None
        return False


async def _renew(
    name: str, renew: Callable[[], Awaitable[object]], pace: RenewalPace, on_lost: Callable[[StaleFence], None]
) -> None:
    loop = asyncio.get_running_loop()
    pause_s = _until_next_s(loop.time(), pace.every_s)
    while True:
        await asyncio.sleep(pause_s)
        try:
            await renew()
            pause_s = _until_next_s(loop.time(), pace.every_s)
        except StaleFence as error:
            log.warning("the lease of %s is lost: %s", name, error.message)
            on_lost(error)
            return
        except AntiphonError as error:
            log.warning("the lease of %s could not be renewed: %s", name, error.message)
            pause_s = pace.retry_s
        except Exception:
            log.exception("the lease of %s could not be renewed", name, extra=remedies.REPORT)
            pause_s = pace.retry_s


def _until_next_s(now_s: float, every_s: float) -> float:
    """Seconds until the next multiple of `every_s` that is more than a tenth of `every_s` away."""
    if not every_s:
        return 0
    pause_s = every_s - now_s % every_s
    return pause_s if pause_s > every_s / 10 else pause_s + every_s
