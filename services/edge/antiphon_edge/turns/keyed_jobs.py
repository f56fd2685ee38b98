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
from time import perf_counter

from antiphon_core.errors import AlreadyExists, AntiphonError, IdempotencyMismatch, JobNotFound, StaleFence
from antiphon_core.ids import Ids
from antiphon_core.limits import JOB_ATTEMPTS_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.store import Fence, Precondition, TurnRequest, TurnStart
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
        if claimed is None:
            return None
        held = _with_job(accepted, *claimed)
        is_late = perf_counter() - accepted.started_s > self._timing.stale_key_s / 2
        return await self._with_key(held) if is_late else held

    async def take_over(self, repeated: RepeatedRequest) -> AcceptedTurn | None:
        """Claims the job of a turn that no edge runs. None: another edge runs it, it is over, it has no job yet, or it
        has lost its key: an edge can take a job over whose turn was given up meanwhile."""
        claimed = await self._claim_job(repeated.tenant, repeated.response_id)
        if claimed is None:
            return None
        accepted = await job_payload.accepted_of(repeated.tenant, claimed[0])
        taken = _with_job(replace(accepted, key=repeated.key, fingerprint=repeated.fingerprint), *claimed)
        return await self._with_key(taken)

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
        """Ends the job of a turn without events. False: another edge has it, or may have it."""
        if accepted.key is None or accepted.job_lease is not None:
            return await self.release(accepted, is_over=True)
        return await self._drop_unheld(accepted)

    async def _drop_unheld(self, accepted: AcceptedTurn) -> bool:
        """Ends the job of a turn for which this edge does not know whether it has one: the answer of the store was
        lost. Only an edge that holds a job may end it, so the job is claimed first: another edge can run the turn by
        now, and would lose its key in the middle."""
        try:
            claimed = await self._claim_job(accepted.tenant, accepted.response_id)
            if claimed is not None:
                return await self.release(_with_job(accepted, *claimed), is_over=True)
            return await self.state(accepted.tenant, accepted.response_id) is None
        except AntiphonError as error:
            log.warning("the job of %s could not be ended: %s", accepted.response_id, error.message)
            return False

    async def _with_key(self, held: AcceptedTurn) -> AcceptedTurn | None:
        """Claims the key of a held turn again. Ends the job and returns None if the turn has lost its key, or has a
        record: a turn that runs without its key would be generated for nothing."""
        try:
            has_key = await self._has_key(held)
        except AntiphonError:
            await self.release(held, is_over=False)
            raise
        if not has_key:
            await self.release(held, is_over=True)
        return held if has_key else None

    async def _has_key(self, held: AcceptedTurn) -> bool:
        if held.key is None:
            return True
        try:
            start = await self._claim_key(held)
        except IdempotencyMismatch:
            return False
        return start.replay is None and start.running_response_id in (None, held.response_id)

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

    async def _claim_key(self, accepted: AcceptedTurn) -> TurnStart:
        """Claims the key again, because a turn may take longer than the claim of its key lasts."""
        asked = TurnRequest(
            idempotency_key=accepted.key, fingerprint=accepted.fingerprint, response_id=accepted.response_id
        )
        return await self._store.begin_turn(accepted.tenant, asked)


def _with_job(accepted: AcceptedTurn, job: Job, lease: JobLease) -> AcceptedTurn:
    return replace(accepted, precondition=Precondition(fence=job.fence), job_lease=lease)


def _queue(response_id: str) -> str:
    return f"turn.{response_id}"
