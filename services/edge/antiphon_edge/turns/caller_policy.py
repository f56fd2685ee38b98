"""The policy of turns whose caller waits for the response.

A turn without an idempotency key ends with its caller: when the client disconnects, the model is stopped, and then the
record is written as cancelled. A keyed turn does not: when its edge shuts down, the next edge that gets a request with
the key continues it (durable_turns.py). A turn that failed with a transient error before its model generated anything
does not use up its key.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from antiphon_core.errors import AntiphonError, SessionLocked, SessionLost
from antiphon_core.ports.translator import Batch
from antiphon_core.telemetry import remedies
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.durable_turns import TurnJobs
from antiphon_edge.turns.turn_finisher import PASSING, TurnFinisher, has_answer
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_starter import TurnStarter

log = logging.getLogger(__name__)


class _SessionNotReclaimed(Exception):
    """A taken-over turn could not lease its session: the store was unreachable. The next edge may take it over."""

    def __init__(self, cause: AntiphonError) -> None:
        self.cause = cause


class CallerPolicy:
    """The policy. One instance serves all of a process."""

    def __init__(
        self,
        starter: TurnStarter,
        finisher: TurnFinisher,
        jobs: TurnJobs,
        meter: Meter,
        *,
        cleanup: Cleanup,
    ) -> None:
        self._starter = starter
        self._finisher = finisher
        self._jobs = jobs
        self._meter = meter
        self._cleanup = cleanup

    async def take_up(self, run: TurnRun) -> None:
        if run.accepted.lease is None or run.accepted.fence is not None:
            return
        try:  # another edge began the turn, so its session must be leased again
            run.accepted = await self._starter.reclaim_session(run.accepted)
        except PASSING as error:
            raise _SessionNotReclaimed(error) from error

    def require_end(self, run: TurnRun, terminal: Batch) -> None:
        """Accepts every terminal batch: a turn whose caller waits has one attempt."""

    async def finish(self, run: TurnRun, terminal: Batch) -> None:
        run.end(await self._cleanup.finish(self._end(run, terminal)))

    async def fail(self, run: TurnRun, error: Exception) -> None:
        self._meter.count_failure(run.accepted.tenant, error)
        if isinstance(error, _SessionNotReclaimed):
            await self._cleanup.finish(self._jobs.release(run.accepted, is_over=False))
            raise error.cause
        if run.state.next_sequence == 0:
            await self._cleanup.finish(self._failed_without_events(run))
            raise error
        run.end(await self._cleanup.finish(self._end(run, error)))

    async def leave(self, run: TurnRun) -> None:
        """Gives back a turn without events, cancels one without a key, and leaves a keyed one to the next edge."""
        accepted = await self._with_log_up_to_date(run)
        if run.state.next_sequence == 0:
            await self.give_back(accepted)
        elif accepted.key is None:
            self._meter.broke_off(accepted.tenant, len(run.state.token_ids))
            await self._starter.give_back_approvals(accepted)
            await self._finisher.cancel(accepted, run.state.fold)
            await self._jobs.release(accepted, is_over=True)
        else:
            await self._jobs.release(accepted, is_over=False)

    async def give_back(self, accepted: AcceptedTurn) -> None:
        """Releases the job, the key, the session lease and the approvals of a turn without events. Does nothing if
        another edge has taken the turn over."""
        if accepted.job_lease is not None and not accepted.job_lease.has_ended:
            # Before the job ends: an edge that died in between would leave approvals that nobody gives back.
            await self._starter.give_back_approvals(accepted, is_under_fence=True)
        if not await self._jobs.drop(accepted):
            return
        try:
            await self._starter.give_up(accepted)
        except AntiphonError as error:
            log.warning("%s keeps its lease and key until they expire: %s", accepted.response_id, error.message)

    async def _failed_without_events(self, run: TurnRun) -> None:
        await self.give_back(await self._with_log_up_to_date(run))

    async def _end(self, run: TurnRun, end: Batch | Exception) -> Batch:
        """Ends the turn at the store, and returns the terminal batch that its receivers get."""
        accepted = await self._with_log_up_to_date(run)
        if isinstance(end, SessionLocked):
            accepted = replace(accepted, lease=None)  # stored outside the session, which another turn has or had
        if isinstance(end, SessionLost):
            ended = await self._finisher.session_lost(accepted, run.state.fold, end)
        else:
            fold = run.state.fold
            batch = await self._finisher.break_off(accepted, fold, end) if isinstance(end, Exception) else end
            ended = await self._finisher.end(accepted, fold, batch)
        if ended.is_settled and not has_answer(ended.batch):
            await self._starter.give_back_approvals(accepted)
        if ended.is_settled or accepted.key is None:  # otherwise the edge that continues the turn charges it
            self._charge(run, end)
        if ended.unused is not None:
            await self.give_back(ended.unused)
        elif accepted.job_lease is not None:
            await self._jobs.release(accepted, is_over=ended.is_settled)
        return ended.batch

    def _charge(self, run: TurnRun, end: Batch | Exception) -> None:
        if isinstance(end, Batch) and end.final is not None:
            self._meter.count_response(run.accepted.tenant, end.final.body)
        else:
            self._meter.broke_off(run.accepted.tenant, len(run.state.token_ids))

    async def _with_log_up_to_date(self, run: TurnRun) -> AcceptedTurn:
        """Flushes the event log, and closes it. If the flush fails, returns the turn without a log: its record has all
        of its output."""
        if run.event_log is None:
            return run.accepted
        try:
            await run.event_log.flush()
        except AntiphonError as error:
            log.error(
                "the event log of %s is given up: %s",
                run.accepted.response_id,
                error.message,
                extra=remedies.CHECK_STORE,
            )
            return replace(run.accepted, has_log=False)
        finally:  # its timer would append again, under a lease that the turn gives back
            await run.event_log.close()
        return run.accepted
