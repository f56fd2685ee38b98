"""The policy of background turns: a worker that holds the turn's job makes an attempt, and logs its events.

An attempt reads the event log first. For the first attempt the log has no output; for a later one it has the events so
far, and the token ids after which the generation continues. If the engine is unavailable, the turn is postponed, so
that it holds no slot of the worker; so is a turn with tools of servers that this worker cannot call. An engine that
fails in the middle of the response uses up one of the job's attempts, because the request itself may crash it. A worker
that stops leaves the turn to the next worker.

One `CommitTurn` writes the job (`job_of`), the record and the beginning of the event log (`opening`), all under the
tenant of the response. Workers do not know the tenants: they claim jobs in DISPATCH_TENANT, and the store serves the
tenants round robin.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress

from antiphon_core import events, response
from antiphon_core.errors import (
    AntiphonError,
    ApprovalAlreadyUsed,
    EngineFault,
    EngineTimeout,
    EngineUnavailable,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    ResponseNotFound,
    SessionLocked,
    SessionLost,
    StatusMismatch,
    ToolServerFault,
    ToolsUnavailable,
    TranslatorUnavailable,
    for_log,
)
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import Fence, Precondition, Stamp, Status, TurnJob
from antiphon_core.ports.translator import Batch
from antiphon_core.retrying import RetryPolicy
from antiphon_edge import stored_content
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.turns.accepted_turn import AcceptedTurn, payload_of
from antiphon_edge.turns.generation import LogState
from antiphon_edge.turns.turn_finisher import (
    REJECTED,
    TurnFinisher,
    cancellation,
    failure,
    final_of,
    has_answer,
    unstorable,
)
from antiphon_edge.turns.turn_runner import TurnRun, TurnRunner
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)

JOB_ATTEMPTS = 5  # a worker that stops or dies in mid-turn uses one up
WAITING_LEASE_MS = 600_000
"""The lifetime of the session lease of a response that waits for a worker."""
_CALLS_FORGOTTEN = (
    "The event log of the response expired before another worker continued it. It is unknown which calls of tools were"
    " sent, so that none is sent again."
)
OPENING_EVENTS = 2  # the number of events in `opening`

# Other errors are the store's: nothing can be written, and the job is tried again, or another worker has it.
_MODEL_FAULTS = (TranslatorUnavailable, EngineUnavailable, EngineTimeout)
_RETRIABLE = (*_MODEL_FAULTS, ToolServerFault, ToolsUnavailable, SessionLost)
_PERMANENT = (ApprovalAlreadyUsed, EngineFault, InternalError, InvalidRequest, LimitExceeded, NotFound, SessionLocked)


class TurnCancelled(Exception):
    """A client cancelled the background response."""


class Postponed(Exception):
    """The turn must be tried again in `pause_s` seconds. `counts`: this attempt was one of those that the job has.
    `is_model_fault`: the model or its engine could not be reached."""

    def __init__(self, cause: AntiphonError, *, pause_s: float, counts: bool) -> None:
        super().__init__(cause.message)
        self.pause_s = pause_s
        self.counts = counts
        self.is_model_fault = isinstance(cause, _MODEL_FAULTS)


class BackgroundPolicy:
    """The policy of one attempt at one job."""

    def __init__(
        self,
        store: FullStore,
        starter: TurnStarter,
        *,
        accepted: AcceptedTurn,
        job: Job,
        meter: Meter | None = None,
        timing: TurnTiming = DEFAULT_TIMING,
    ) -> None:
        self._store = store
        self._starter = starter
        self._finisher = TurnFinisher(store)
        self._meter = meter or Meter()
        self._job = job
        self._pause_s = _pause_s(timing.engine_retry, job.tries)
        self._has_lost_engine = False
        self._first_sequence = 0  # of this attempt
        self._has_begun = False
        self._accepted = accepted
        self.turn_run = TurnRun(self._accepted, delivery=Delivery.BACKGROUND)
        self.is_cancelled = False
        """Whether the turn ended because a client asked for it."""

    @property
    def has_output(self) -> bool:
        """Whether the model has answered in this attempt."""
        return self._has_begun and self.turn_run.state.next_sequence > self._first_sequence

    async def run(self, runner: TurnRunner) -> None:
        """Runs the attempt, and returns when the response has ended. Cancelling stops the model, and writes nothing.

        Raises:
            Postponed: the turn must be tried again later.
            AntiphonError: the end could not be written. The job must be tried again, or another worker has it.
        """
        run = self.turn_run
        try:
            await runner.run(run, self)
        finally:
            await run.close_log()

    async def take_up(self, run: TurnRun) -> None:
        await self._open_log(run.state)
        if run.interrupt.error is not None:
            raise run.interrupt.error
        await self._begin(run)
        run.accepted = await self._starter.reclaim_session(self._accepted)
        self._first_sequence = run.state.next_sequence
        self._has_begun = True

    def require_end(self, run: TurnRun, terminal: Batch) -> None:
        final = final_of(terminal)
        if final.status is not Status.FAILED or not run.state.can_be_continued():
            return
        error = response.error_of(loads(final.body))
        if isinstance(error, _RETRIABLE):
            has_advanced = run.state.next_sequence > self._first_sequence
            self._has_lost_engine = has_advanced or isinstance(error, EngineTimeout)
            if self._may_try_again(run.state):
                raise error

    async def finish(self, run: TurnRun, terminal: Batch) -> None:
        final = final_of(terminal)
        try:
            await run.flush_log()
            ended = await self._commit(run, terminal)
        except (ResponseNotFound, StatusMismatch):
            await self._end_log(run)
            return
        if not has_answer(ended):
            await self._starter.give_back_approvals(run.accepted)
        run.end(ended)
        # After the commit: when the commit fails, another attempt follows.
        self._meter.count_response(run.accepted.tenant, final.body)

    async def fail(self, run: TurnRun, error: Exception) -> None:
        self._meter.count_failure(run.accepted.tenant, error)
        if isinstance(error, TurnCancelled):
            self.is_cancelled = True
            await self._end(run, await cancellation(run.state.fold))
        elif isinstance(error, (ResponseNotFound, StatusMismatch)):
            await self._end_log(run)
        elif isinstance(error, _RETRIABLE) and self._may_try_again(run.state):
            raise await self._postponement(error)
        elif isinstance(error, (*_RETRIABLE, *_PERMANENT)):
            log.warning("response %s was cut off: %s", run.accepted.response_id, for_log(error))
            await self._end(run, await failure(run.state.fold, error))
        else:
            raise error

    async def leave(self, run: TurnRun) -> None:
        """Writes nothing: the next worker that claims the job continues from the log."""

    def _may_try_again(self, state: LogState) -> bool:
        has_attempts_left = self._job.attempt < self._job.max_attempts
        return has_attempts_left and self._pause_s is not None and _can_continue(state)

    async def _postponement(self, error: AntiphonError) -> Postponed:
        """Flushes the log, extends the session lease, and returns the error that postpones the job."""
        lease = self.turn_run.accepted.lease
        with suppress(AntiphonError):
            await self.turn_run.flush_log()
        if lease is not None and lease.fence.token:
            with suppress(AntiphonError):
                await self._store.renew_session(self._accepted.tenant, lease.fence, ttl_ms=WAITING_LEASE_MS)
        counts = self._has_lost_engine or isinstance(error, SessionLost)
        return Postponed(error, pause_s=self._pause_s or 0.0, counts=counts)

    async def _open_log(self, state: LogState) -> None:
        """Begins the log anew if it expired while the response was queued.

        Raises:
            InternalError: the log of an earlier attempt has expired. It had the calls of tools that were sent.
            ResponseNotFound
        """
        if state.next_sequence:
            return
        record = await self._store.get(self._accepted.tenant, self._accepted.response_id)
        start = opening(record.id, stored_content.response_of(record))
        await self._append(start)
        state.fold.feed(first_sequence=0, count=start.count, frames=start.frames)
        if record.status is Status.IN_PROGRESS and self._accepted.declared.servers:
            raise InternalError(_CALLS_FORGOTTEN)

    async def _begin(self, run: TurnRun) -> None:
        """Sends response.in_progress, unless an earlier attempt did. StatusMismatch: the response has ended."""
        accepted, state = self._accepted, run.state
        if state.next_sequence == OPENING_EVENTS:
            begun = state.fold.response() | {"status": Status.IN_PROGRESS.value}
            event: Object = {"type": events.IN_PROGRESS, "sequence_number": state.next_sequence, "response": begun}
            batch = Batch(state.next_sequence, 1, events.encode(event))
            state.feed(batch)
            run.deliver(batch)

        def write(fence: Fence | None) -> Awaitable[Stamp]:
            queued = Precondition(statuses=frozenset({Status.QUEUED}), fence=fence)
            return self._store.update_status(
                accepted.tenant, accepted.response_id, Status.IN_PROGRESS, precondition=queued
            )

        try:
            await accepted.under_fence(write)
        except StatusMismatch:
            record = await self._store.get(accepted.tenant, accepted.response_id)
            if record.status is not Status.IN_PROGRESS:
                raise

    async def _end(self, run: TurnRun, batch: Batch) -> None:
        """Writes an end that the worker made, in the turn's session if that can still be leased."""
        try:
            await run.flush_log()
            if run.accepted.lease is not None and run.accepted.fence is None:
                with suppress(SessionLocked, NotFound, LimitExceeded):
                    run.accepted = await self._starter.reclaim_session(self._accepted)
            batch = await self._commit(run, batch)
            await self._starter.give_back_approvals(run.accepted)
        except (ResponseNotFound, StatusMismatch):
            await self._end_log(run)
            return
        run.end(batch)
        self._meter.broke_off(run.accepted.tenant, len(run.state.token_ids))

    async def _commit(self, run: TurnRun, batch: Batch) -> Batch:
        """Writes the record, and returns the batch that ends the turn: a failure without output if the store rejects
        the output. Otherwise each further attempt would generate it again."""
        try:
            await self._finisher.commit(run.accepted, batch, final_of(batch))
        except REJECTED as error:
            log.warning("the output of %s cannot be stored: %s", run.accepted.response_id, for_log(error))
            batch = await unstorable(run.state.fold)
            await self._finisher.commit(run.accepted, batch, final_of(batch))
        return batch

    async def _end_log(self, run: TurnRun) -> None:
        """Ends the log of a response that another process ended or deleted: its followers need a terminal event."""
        if not run.state.next_sequence:
            return
        with suppress(AntiphonError):
            await run.flush_log()
            batch = await cancellation(run.state.fold)
            end = EventAppend(
                self._accepted.response_id, batch.first_sequence, batch.count, batch.frames, terminal=True
            )
            await self._append(end)

    async def _append(self, events: EventAppend) -> None:
        accepted = self._accepted
        await accepted.under_fence(lambda fence: self._store.append_events(accepted.tenant, events, fence=fence))


def _can_continue(state: LogState) -> bool:
    """Whether another attempt can continue the generation: no output was sent, or its token ids are known."""
    return state.next_sequence <= OPENING_EVENTS + 1 or state.can_be_continued()


def _pause_s(retry: RetryPolicy, tries: int) -> float | None:
    """The pause after so many tries; None if it and the pauses before it add up to more than the policy allows."""
    rest_s = retry.for_s
    for number, pause_s in enumerate(retry.pauses_s(), 1):
        rest_s -= pause_s
        if rest_s < 0:
            return None
        if number >= tries:
            return pause_s
    raise AssertionError("pauses have no end")


def job_of(accepted: AcceptedTurn) -> TurnJob:
    """The job of a turn that waits for a worker, which the store adds together with its record."""
    return TurnJob(payload_of(accepted), JOB_ATTEMPTS, WAITING_LEASE_MS)


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response; response.in_progress is sent by the first worker."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))
