"""The jobs of keyed turns: the edge that holds the job runs the turn.

A keyed turn does not end with the connection of its first request. It has a job, in a queue of its own. The edge that
runs the turn renews the job's lease, and all its writes carry the job's fence. When that edge dies, any edge that gets
a request with the same key can claim the job and continue the turn where its event log ends.
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
    """Creates, claims, renews and settles the jobs of keyed turns. One instance serves all of a process."""

    def __init__(self, store: FullStore, *, ids: Ids, timing: TurnTiming = DEFAULT_TIMING) -> None:
        self._store = store
        self._ids = ids
        self._timing = timing
        self._keepers: dict[Fence, AsyncExitStack] = {}

    async def hold(self, accepted: AcceptedTurn) -> AcceptedTurn | None:
        """Creates and claims the turn's job. Returns the turn with the job's lease; None if another edge was faster.
        TooLarge: the turn does not fit into a job."""
        draft = JobDraft(
            accepted.response_id,
            _queue(accepted.response_id),
            job_payload.payload_of(accepted),
            max_attempts=JOB_ATTEMPTS_ITEMS_MAX,
        )
        try:
            with job_payload.size_errors_translated():
                await self._store.enqueue_job(accepted.tenant, draft)
        except AlreadyExists:
            return None
        claimed = await self._claim_job(accepted.tenant, accepted.response_id)
        return None if claimed is None else _with_job(accepted, *claimed)

    async def take_over(self, repeated: RepeatedRequest) -> AcceptedTurn | None:
        """Claims the job of a turn that no edge runs. None: another edge runs it, it is over, or it has no job yet."""
        claimed = await self._claim_job(repeated.tenant, repeated.response_id)
        if claimed is None:
            return None
        accepted = await job_payload.accepted_of(repeated.tenant, claimed[0])
        return _with_job(replace(accepted, key=repeated.key, fingerprint=repeated.fingerprint), *claimed)

    async def state(self, tenant: str, response_id: str) -> JobState | None:
        """The state of a keyed turn's job; None if the turn has no such job."""
        try:
            job = await self._store.describe_job(tenant, response_id)
        except JobNotFound:
            return None
        return job.state if job.queue == _queue(response_id) else None

    async def is_open(self, tenant: str, response_id: str) -> bool:
        """Whether a keyed turn has a job that is queued or running."""
        return await self.state(tenant, response_id) in (JobState.QUEUED, JobState.RUNNING)

    @asynccontextmanager
    async def kept(self, accepted: AcceptedTurn) -> AsyncIterator[None]:
        """Renews the job's lease, and claims the key again, until the block is left or the job is released. If the
        lease is lost all the same, the store rejects writes with the job's fence."""
        lease, fence = accepted.job_lease, accepted.precondition.fence
        if lease is None or fence is None:
            yield
            return

        def renew() -> Awaitable[JobPulse]:
            return lease.under_fence(
                lambda now: self._store.heartbeat_job(accepted.tenant, now, lease_ttl_ms=self._timing.job_lease_ms)
            )

        keepers = self._keepers[fence] = AsyncExitStack()
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
            await self._stop_renewals(fence)

    async def release(self, accepted: AcceptedTurn, *, is_over: bool) -> bool:
        """Settles the job: for good, or for another edge to continue the turn. False: another edge has the job."""
        lease = accepted.job_lease
        if lease is None:
            return True
        await self._stop_renewals(accepted.precondition.fence)
        outcome = JobOutcome.SUCCEEDED if is_over else JobOutcome.RETRY
        try:
            await lease.under_fence(lambda fence: self._store.settle_job(accepted.tenant, fence, outcome))
        except AntiphonError as error:  # the lease expires by itself; the next holder reads the log
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

    async def _stop_renewals(self, fence: Fence | None) -> None:
        """Stops the renewals of the job with that fence, and of its key."""
        keepers = self._keepers.pop(fence, None) if fence is not None else None
        if keepers is not None:
            await keepers.aclose()

    async def _claim_key(self, accepted: AcceptedTurn) -> None:
        """Claims the key again, because a turn may take longer than the claim of its key lasts."""
        asked = TurnRequest(
            idempotency_key=accepted.key, fingerprint=accepted.fingerprint, response_id=accepted.response_id
        )
        await self._store.begin_turn(accepted.tenant, asked)


def _with_job(accepted: AcceptedTurn, job: Job, lease: JobLease) -> AcceptedTurn:
    return replace(accepted, precondition=Precondition(fence=job.fence), job_lease=lease)


def _queue(response_id: str) -> str:
    return f"turn.{response_id}"
