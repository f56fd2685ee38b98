"""Who runs a turn under an idempotency key: whoever holds its job.

Such a turn belongs to its key, not to the connection that asked first. It has a job in a queue of its own; the edge
that runs it holds the job and keeps it by heartbeats, and all it writes carries the job's fence. When it dies, the job
can be claimed by any edge that somebody asks for the same again, and that edge goes on where the log ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

from antiphon_core.errors import AlreadyExists, AntiphonError, JobNotFound, StaleFence
from antiphon_core.ids import Ids
from antiphon_core.limits import JOB_ATTEMPTS_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.store import Fence, Precondition, TurnRequest
from antiphon_edge.background import queueing
from antiphon_edge.turns.begun import Begun, Repeated
from antiphon_edge.turns.holds import Hold

log = logging.getLogger(__name__)

LEASE_MS = 6_000  # so long after its edge's death somebody else can go on with a turn
HEARTBEAT_S = 2.0
CLAIM_BEATS = 30  # a key is claimed again once a minute, so that a turn keeps it for as long as it runs


class Holdings:
    """One instance serves all of a process."""

    def __init__(self, store: FullStore, *, ids: Ids) -> None:
        self._store = store
        self._ids = ids
        self._beating: dict[Fence, asyncio.Task[None]] = {}

    async def hold(self, begun: Begun) -> Begun | None:
        """The turn, to be run under its fence; None when somebody else was faster."""
        draft = JobDraft(
            begun.response_id,
            _queue(begun.response_id),
            queueing.payload_of(begun),
            max_attempts=JOB_ATTEMPTS_ITEMS_MAX,
        )
        try:
            await self._store.enqueue_job(begun.tenant, draft)
        except AlreadyExists:
            return None
        claimed = await self._claim_job(begun.tenant, begun.response_id)
        return None if claimed is None else _held(begun, *claimed)

    async def take_over(self, repeated: Repeated) -> Begun | None:
        """A turn that nobody runs, as its job has it. None: somebody does, or it is over, or has not come so far."""
        claimed = await self._claim_job(repeated.tenant, repeated.response_id)
        if claimed is None:
            return None
        begun = queueing.begun_of(repeated.tenant, claimed[0])
        return _held(replace(begun, key=repeated.key, fingerprint=repeated.fingerprint), *claimed)

    async def is_open(self, tenant: str, response_id: str) -> bool:
        """Whether a turn has a job here that is not over."""
        try:
            job = await self._store.describe_job(tenant, response_id)
        except JobNotFound:
            return False
        return job.queue == _queue(response_id) and job.state in (JobState.QUEUED, JobState.RUNNING)

    @asynccontextmanager
    async def kept(self, begun: Begun) -> AsyncIterator[None]:
        """Keeps the job, and the key, until the block is left or the turn is dropped. Where the job is lost all the
        same, the store refuses what is written."""
        hold, fence = begun.hold, begun.precondition.fence
        if hold is None or fence is None:
            yield
            return
        self._beating[fence] = asyncio.create_task(self._beat(begun, hold), name=f"job of {begun.response_id}")
        try:
            yield
        finally:
            await self._rest(fence)

    async def let_go(self, begun: Begun, *, is_over: bool) -> bool:
        """Gives the job back: for good, or to whoever goes on. False: it is somebody else's."""
        hold = begun.hold
        if hold is None:
            return True
        await self._rest(begun.precondition.fence)
        outcome = JobOutcome.SUCCEEDED if is_over else JobOutcome.RETRY
        try:
            await hold.proven(lambda fence: self._store.settle_job(begun.tenant, fence, outcome))
        except AntiphonError as error:  # then its lease runs out, and who claims it next sees how things stand
            log.warning("the job of %s could not be given back: %s", begun.response_id, error.message)
            return not isinstance(error, StaleFence)
        return True

    async def drop(self, begun: Begun) -> bool:
        """Ends the job of a turn that came to nothing, and keeps its key no longer. False: it is somebody else's."""
        is_ours = await self.let_go(begun, is_over=True)
        if begun.key is not None and begun.hold is None:
            try:
                await self._store.cancel_job(begun.tenant, begun.response_id)
            except JobNotFound:
                pass
            except AntiphonError as error:
                log.warning("the job of %s could not be ended: %s", begun.response_id, error.message)
        return is_ours

    async def _claim_job(self, tenant: str, response_id: str) -> tuple[Job, Hold] | None:
        queues, holder = [_queue(response_id)], f"edge-{self._ids.hex(32)}"

        def claim() -> Awaitable[Job | None]:
            return self._store.claim_job(tenant, queues, holder=holder, lease_ttl_ms=LEASE_MS)

        job = await claim()
        return None if job is None else (job, Hold(self._store, tenant, job, claim))

    async def _rest(self, fence: Fence | None) -> None:
        """Returns when the job of that fence is kept no longer."""
        beating = self._beating.pop(fence, None) if fence is not None else None
        if beating is not None:
            beating.cancel()
            await asyncio.wait([beating])

    async def _beat(self, begun: Begun, hold: Hold) -> None:
        def beat(fence: Fence) -> Awaitable[JobPulse]:
            return self._store.heartbeat_job(begun.tenant, fence, lease_ttl_ms=LEASE_MS)

        for number in count(1):
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await hold.proven(beat)
                if number % CLAIM_BEATS == 0:
                    await self._keep_key(begun)
            except StaleFence:
                log.warning("%s is run by somebody else now", begun.response_id)
                return
            except AntiphonError as error:
                log.warning("the job of %s could not be kept: %s", begun.response_id, error.message)

    async def _keep_key(self, begun: Begun) -> None:
        """Claims the key once more: a turn may take longer than a claim lasts."""
        asked = TurnRequest(idempotency_key=begun.key, fingerprint=begun.fingerprint, response_id=begun.response_id)
        await self._store.begin_turn(begun.tenant, asked)


def _held(begun: Begun, job: Job, hold: Hold) -> Begun:
    return replace(begun, precondition=Precondition(fence=job.fence), hold=hold)


def _queue(response_id: str) -> str:
    return f"turn.{response_id}"
