"""Durable turns: turns that go on when their client, their edge or their worker is gone.

A durable turn has a job in the store. The process that holds the lease of the job runs the turn, and every write of the
turn (its event log, its record, the end of the job) carries the fence of that lease. Keyed turns and background turns
are the same machine; they differ in their first holder, and in who takes over:

    keyed       the edge that accepted the request holds the job from the start. After its death an edge with a request
                for the same idempotency key takes the turn over, never a worker: workers do not know the key.
    background  nobody holds the job at first. Any worker claims it, at first and after the death of another worker.

States, by the rows that a process finds:

    state   | rows                        | who moves it, by which event                    | what a crash leaves
    --------+-----------------------------+-------------------------------------------------+--------------------
    claimed | key (keyed turns only)      | its edge queues the job -> held                 | claimed: the next
            |                             | its edge gives the key back -> nothing          | request frees the
            |                             |                                                 | key (StaleKey)
    waiting | job queued, or the lease of | a worker, or an edge with the key, claims it    | waiting
            | its holder has expired      | -> held                                         |
            |                             | a client cancels it (background) -> over        |
    held    | job running                 | the holder commits the record -> ended          | waiting, when the
            |                             | the holder gives the job back -> waiting        | lease has expired;
            |                             | the holder drops a turn without events, and its | the log is kept
            |                             | key -> nothing                                  |
    over    | job failed or cancelled, or | a reader writes the end (background) -> ended   | over: the next
            | gone, without a record of   | keyed turns have no record: the next request    | reader does it
            | an end                      | frees the key                                   |
    ended   | record with an end, log     | nobody; the commit has ended the job, except    | ended: the next
            | with its terminal event     | that of a cancelled response: its holder does   | holder settles it

A turn without a key that calls tools of servers is a keyed turn whose key nobody can repeat: when its holder is gone,
the next request that reads or continues its response ends it as failed (lost_turns.py).

A takeover reads the log, leases the session of the turn again, and continues the generation behind the token ids of the
log. A turn that has no output in its log begins anew.

Every reader follows the log. When the log is silent, the reader looks at the job, and `STEPS` says what to do.

Each keyed turn has a queue of its own, so that only an edge that knows its response id, by its key, claims its job. A
turn without a key that calls tools of servers has one, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from time import perf_counter

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    DataDamaged,
    IdempotencyMismatch,
    JobNotFound,
    StaleFence,
)
from antiphon_core.ids import Ids
from antiphon_core.limits import JOB_ATTEMPTS_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    PAYLOAD_DAMAGED,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    Jobs,
    JobState,
)
from antiphon_core.ports.store import ResponseStore
from antiphon_edge.turns.accepted_turn import (
    AcceptedTurn,
    RepeatedRequest,
    accepted_of,
    payload_of,
    size_errors_translated,
)
from antiphon_edge.turns.leases import Claim, JobLease
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)

_KEYED, _UNKEYED = "turn.", "unkeyed."
"""The beginnings of the names of queues, before the id of the response."""


class Step(StrEnum):
    """The next step of a reader whose log is silent."""

    WAIT = "wait"
    """Another process runs the turn, or will."""
    TAKE_OVER = "take over"
    """Nobody runs the turn: the reader's edge does."""
    READ_END = "read the end"
    """Nobody will run the turn: its log, or its record, has the end if there is one."""
    END_AS_FAILED = "end as failed"
    END_AS_CANCELLED = "end as cancelled"


STEPS: Mapping[Delivery, Mapping[JobState | None, Step]] = {
    Delivery.KEYED: {
        JobState.QUEUED: Step.TAKE_OVER,
        JobState.RUNNING: Step.WAIT,
        JobState.SUCCEEDED: Step.READ_END,
        JobState.FAILED: Step.READ_END,
        JobState.CANCELLED: Step.READ_END,
        None: Step.READ_END,
    },
    Delivery.BACKGROUND: {
        JobState.QUEUED: Step.WAIT,
        JobState.RUNNING: Step.WAIT,
        JobState.SUCCEEDED: Step.READ_END,
        JobState.FAILED: Step.END_AS_FAILED,
        JobState.CANCELLED: Step.END_AS_CANCELLED,
        None: Step.END_AS_FAILED,
    },
}
"""By the state of the job; None: there is no such job, because it was not queued yet or was deleted."""


async def next_step(
    jobs: Jobs, delivery: Delivery, tenant: str, response_id: str
) -> tuple[Step, JobDescription | None]:
    """The next step of a reader whose log is silent, and the job that it follows from."""
    try:
        job = await jobs.describe_job(tenant, response_id)
    except JobNotFound:
        return STEPS[delivery][None], None
    if (job.queue == DISPATCH_QUEUE) is not (delivery is Delivery.BACKGROUND):
        return STEPS[delivery][None], None
    return STEPS[delivery][job.state], job


class TurnJobs:
    """Queues, claims and settles the jobs of keyed turns. One instance serves all of a process."""

    def __init__(self, store: FullStore, *, ids: Ids, timing: TurnTiming = DEFAULT_TIMING) -> None:
        self._store = store
        self._ids = ids
        self._timing = timing

    async def enqueue(self, accepted: AcceptedTurn) -> AcceptedTurn | None:
        """Queues the job of a turn, which this edge holds from the start. Returns the turn with the job's lease;
        None if another edge was faster. TooLarge: the turn does not fit into a job."""
        holder, queue = _first_holder(accepted), _queue(accepted)
        claim = self._claim_of(accepted.tenant, queue, holder)
        draft = JobDraft(
            accepted.response_id,
            queue,
            payload_of(accepted),
            max_attempts=JOB_ATTEMPTS_ITEMS_MAX,
            holder=holder,
            lease_ttl_ms=self._timing.job_lease_ms,
        )
        try:
            with size_errors_translated():
                job = await self._store.enqueue_job(accepted.tenant, draft)
        except AlreadyExists:
            return None
        job = job or await claim()  # a store of the release before does not know holders
        if job is None:
            return None
        held = replace(accepted, job_lease=JobLease(self._store, accepted.tenant, job, claim))
        # By now another request may have released the key as stale (StaleKey).
        is_late = perf_counter() - accepted.started_s > self._timing.stale_key_s / 2
        return await self._with_key(held) if is_late else held

    async def claim_unkeyed(self, tenant: str, response_id: str) -> AcceptedTurn | None:
        """Claims the job of a turn without a key whose edge was lost. None: another edge has it."""
        claim = self._claim_of(tenant, _UNKEYED + response_id, f"edge-{self._ids.hex(32)}")
        job = await claim()
        return await _turn_of(tenant, job, JobLease(self._store, tenant, job, claim)) if job is not None else None

    async def take_over(self, repeated: RepeatedRequest) -> AcceptedTurn | None:
        """Claims the job of a keyed turn that no edge runs. None: another edge runs it, it is over, it has no job yet,
        or it has lost its key: an edge can take a job over whose turn was given up meanwhile."""
        claim = self._claim_of(repeated.tenant, _KEYED + repeated.response_id, f"edge-{self._ids.hex(32)}")
        job = await claim()
        if job is None:
            return None
        accepted = await _turn_of(repeated.tenant, job, JobLease(self._store, repeated.tenant, job, claim))
        return await self._with_key(
            replace(accepted, key=repeated.key, fingerprint=repeated.fingerprint, credentials=repeated.credentials)
        )

    async def is_open(self, tenant: str, response_id: str) -> bool:
        """Whether a keyed turn has a job that is queued or running."""
        job = (await next_step(self._store, Delivery.KEYED, tenant, response_id))[1]
        return job is not None and job.state in (JobState.QUEUED, JobState.RUNNING)

    async def release(self, accepted: AcceptedTurn, *, is_over: bool) -> bool:
        """Settles the job of a turn, if it has one: for good, or for another edge to continue the turn. False: another
        edge has the job."""
        if accepted.job_lease is None:
            return True
        try:
            await accepted.job_lease.settle(JobOutcome.SUCCEEDED if is_over else JobOutcome.RETRY)
        except AntiphonError as error:  # the lease expires by itself; the next holder reads the log
            log.warning("the job of %s could not be given back: %s", accepted.response_id, error.message)
            return not isinstance(error, StaleFence)
        return True

    async def drop(self, accepted: AcceptedTurn) -> bool:
        """Ends the job of a turn without events. False: another edge has it, or may have it."""
        if accepted.job_lease is not None or not accepted.has_log:
            return await self.release(accepted, is_over=True)
        return await self._drop_unheld(accepted)

    async def _drop_unheld(self, accepted: AcceptedTurn) -> bool:
        """Ends the job of a turn for which this edge does not know whether it has one: the answer of the store was
        lost. Only an edge that holds a job may end it, so the job is claimed first: another edge can run the turn by
        now, and would lose its key in the middle."""
        try:
            claim = self._claim_of(accepted.tenant, _queue(accepted), _first_holder(accepted))
            if (job := await claim()) is not None:
                lease = JobLease(self._store, accepted.tenant, job)
                return await self.release(replace(accepted, job_lease=lease), is_over=True)
            return (await next_step(self._store, Delivery.KEYED, accepted.tenant, accepted.response_id))[1] is None
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
        try:
            start = await self._store.begin_turn(held.tenant, held.key_claim)
        except IdempotencyMismatch:
            return False
        return start.replay is None and start.running_response_id in (None, held.response_id)

    def _claim_of(self, tenant: str, queue: str, holder: str) -> Claim:
        """Makes the claim of the only job of a queue."""
        lease_ttl_ms = self._timing.job_lease_ms
        return partial(self._store.claim_job, tenant, [queue], holder=holder, lease_ttl_ms=lease_ttl_ms)


class StaleKey:
    """Notes, for one repeated request, since when the first request of its key has left nothing.

    The edge of a first request can die before it has stored a job, a log or a record that another edge could continue.
    The key would stay claimed until the claim expires, and requests with the key would fail until then.
    """

    def __init__(self, store: ResponseStore, *, stale_after_s: float) -> None:
        self._store = store
        self._stale_after_s = stale_after_s
        self._response_id = ""
        self._stale_at_s = 0.0

    async def release_if_stale(self, repeated: RepeatedRequest) -> None:
        """Releases the key if its first request has left nothing for `stale_after_s`. Call it each time that nothing is
        found. An edge that was only slow then finds the key with another request, and stores nothing."""
        now_s = asyncio.get_running_loop().time()
        if repeated.response_id != self._response_id:
            self._response_id, self._stale_at_s = repeated.response_id, now_s + self._stale_after_s
        elif now_s >= self._stale_at_s:
            await self._store.abort_turn(
                repeated.tenant, None, idempotency_key=repeated.key, response_id=repeated.response_id
            )


def _queue(accepted: AcceptedTurn) -> str:
    return (_KEYED if accepted.key is not None else _UNKEYED) + accepted.response_id


async def _turn_of(tenant: str, job: Job, lease: JobLease) -> AcceptedTurn:
    """The turn of a claimed job. DataDamaged: no edge can run it, and the job is settled."""
    try:
        return await accepted_of(tenant, job, lease)
    except DataDamaged:
        await lease.settle(JobOutcome.FAILED, reason=PAYLOAD_DAMAGED)
        raise


def is_unkeyed(queue: str) -> bool:
    """Whether this is the queue of a turn without a key."""
    return queue.startswith(_UNKEYED)


def _first_holder(accepted: AcceptedTurn) -> str:
    """The name of the edge that accepted the turn: no other edge makes its response id, and claims under this name."""
    return f"edge-{accepted.response_id}"
