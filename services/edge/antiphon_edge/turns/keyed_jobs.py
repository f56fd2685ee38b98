"""The jobs of turns under idempotency keys: the edge that holds the job runs the turn.

Such a turn belongs to its key, not to the connection that asked first. Its job lies in a queue of its own. The edge
that runs the turn renews the job's lease, and everything that it writes carries the job's fence. When that edge dies,
any edge that is asked for the same key can claim the job, and goes on where the event log ends.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from antiphon_core.errors import AlreadyExists, AntiphonError, JobNotFound, StaleFence
from antiphon_core.ids import Ids
from antiphon_core.limits import JOB_ATTEMPTS_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.store import Fence, Precondition, TurnRequest
from antiphon_edge.turns import job_payload, lease_keeper
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.job_lease import JobLease
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming

log = logging.getLogger(__name__)


class KeyedJobs:
    """One instance serves all of a process."""

    def __init__(self, store: FullStore, *, ids: Ids, timing: TurnTiming = DEFAULT_TIMING) -> None:
        self._store = store
        self._ids = ids
        self._timing = timing
        self._kept: dict[Fence, AsyncExitStack] = {}

    async def hold(self, accepted: AcceptedTurn) -> AcceptedTurn | None:
        """The turn with the lease of its job; None when another edge was faster."""
        draft = JobDraft(
            accepted.response_id,
            _queue(accepted.response_id),
            job_payload.payload_of(accepted),
            max_attempts=JOB_ATTEMPTS_ITEMS_MAX,
        )
        try:
            await self._store.enqueue_job(accepted.tenant, draft)
        except AlreadyExists:
            return None
        claimed = await self._claim_job(accepted.tenant, accepted.response_id)
        return None if claimed is None else _held(accepted, *claimed)

    async def take_over(self, repeated: RepeatedRequest) -> AcceptedTurn | None:
        """The turn of a job that nobody runs. None: another edge runs it, it is over, or it has no job yet."""
        claimed = await self._claim_job(repeated.tenant, repeated.response_id)
        if claimed is None:
            return None
        accepted = await job_payload.accepted_of(repeated.tenant, claimed[0])
        return _held(replace(accepted, key=repeated.key, fingerprint=repeated.fingerprint), *claimed)

    async def state(self, tenant: str, response_id: str) -> JobState | None:
        """The state of a turn's job; None when it has none."""
        try:
            job = await self._store.describe_job(tenant, response_id)
        except JobNotFound:
            return None
        return job.state if job.queue == _queue(response_id) else None

    async def is_open(self, tenant: str, response_id: str) -> bool:
        """Whether a turn has a job here that is not over."""
        return await self.state(tenant, response_id) in (JobState.QUEUED, JobState.RUNNING)

    @asynccontextmanager
    async def kept(self, accepted: AcceptedTurn) -> AsyncIterator[None]:
        """Renews the job's lease, and the key, until the block is left or the job is released. Where the job is lost
        all the same, the store rejects what is written under it."""
        lease, fence = accepted.job_lease, accepted.precondition.fence
        if lease is None or fence is None:
            yield
            return

        def renew() -> Awaitable[JobPulse]:
            return lease.proven(
                lambda now: self._store.heartbeat_job(accepted.tenant, now, lease_ttl_ms=self._timing.job_lease_ms)
            )

        keepers = self._kept[fence] = AsyncExitStack()
        await keepers.enter_async_context(
            lease_keeper.kept(f"job {accepted.response_id}", renew, self._timing.job_pace)
        )
        await keepers.enter_async_context(
            lease_keeper.kept(
                f"key of {accepted.response_id}", lambda: self._claim_key(accepted), self._timing.key_pace
            )
        )
        try:
            yield
        finally:
            await self._stop_keeping(fence)

    async def release(self, accepted: AcceptedTurn, *, is_over: bool) -> bool:
        """Gives the job back: for good, or for another edge to go on. False: another edge has it already."""
        lease = accepted.job_lease
        if lease is None:
            return True
        await self._stop_keeping(accepted.precondition.fence)
        outcome = JobOutcome.SUCCEEDED if is_over else JobOutcome.RETRY
        try:
            await lease.proven(lambda fence: self._store.settle_job(accepted.tenant, fence, outcome))
        except AntiphonError as error:  # its lease expires then, and the next holder reads the log
            log.warning("the job of %s could not be given back: %s", accepted.response_id, error.message)
            return not isinstance(error, StaleFence)
        return True

    async def drop(self, accepted: AcceptedTurn) -> bool:
        """Ends the job of a turn without events. False: another edge has it."""
        is_ours = await self.release(accepted, is_over=True)
        if accepted.key is not None and accepted.job_lease is None:
            try:
                await self._store.cancel_job(accepted.tenant, accepted.response_id)
            except JobNotFound:
                pass
            except AntiphonError as error:
                log.warning("the job of %s could not be ended: %s", accepted.response_id, error.message)
        return is_ours

    async def _claim_job(self, tenant: str, response_id: str) -> tuple[Job, JobLease] | None:
        queues, holder = [_queue(response_id)], f"edge-{self._ids.hex(32)}"

        def claim() -> Awaitable[Job | None]:
            return self._store.claim_job(tenant, queues, holder=holder, lease_ttl_ms=self._timing.job_lease_ms)

        job = await claim()
        return None if job is None else (job, JobLease(self._store, tenant, job, claim))

    async def _stop_keeping(self, fence: Fence | None) -> None:
        """Returns when the job of that fence is not renewed any more."""
        keepers = self._kept.pop(fence, None) if fence is not None else None
        if keepers is not None:
            await keepers.aclose()

    async def _claim_key(self, accepted: AcceptedTurn) -> None:
        """Claims the key once more: a turn may take longer than a claim lasts."""
        asked = TurnRequest(
            idempotency_key=accepted.key, fingerprint=accepted.fingerprint, response_id=accepted.response_id
        )
        await self._store.begin_turn(accepted.tenant, asked)


def _held(accepted: AcceptedTurn, job: Job, lease: JobLease) -> AcceptedTurn:
    return replace(accepted, precondition=Precondition(fence=job.fence), job_lease=lease)


def _queue(response_id: str) -> str:
    return f"turn.{response_id}"
