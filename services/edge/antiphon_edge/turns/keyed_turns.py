"""Runs turns under idempotency keys, each in a task of its own: such a turn continues when its client disconnects."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from antiphon_core.errors import Unavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Batch, Receive
from antiphon_core.telemetry import metrics, remedies
from antiphon_edge.quotas import stream_slots
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.caller_turn import CallerTurn
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.event_log_writer import EventLogWriter
from antiphon_edge.turns.keyed_jobs import KeyedJobs
from antiphon_edge.turns.log_state import LogState
from antiphon_edge.turns.turn_runner import TurnRun, TurnRunner, discard
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)


class KeyedTurns:
    """Runs keyed turns. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        runner: TurnRunner,
        keyed_jobs: KeyedJobs,
        *,
        policy: CallerTurn,
        takeover_policy: CallerTurn,
        cleanup: Cleanup,
        timing: TurnTiming = DEFAULT_TIMING,
    ) -> None:
        """`takeover_policy` is for turns that another edge began."""
        self._store = store
        self._runner = runner
        self._keyed_jobs = keyed_jobs
        self._policy = policy
        self._takeover_policy = takeover_policy
        self._cleanup = cleanup
        self._timing = timing
        self._running: set[asyncio.Task[None]] = set()

    async def hold(self, accepted: AcceptedTurn) -> AcceptedTurn | None:
        """Creates and claims the turn's job, as KeyedJobs.hold does. If the caller is cancelled meanwhile, the job, the
        key and the session lease are given back."""
        holding = self._cleanup.start(self._keyed_jobs.hold(accepted))
        try:
            return await asyncio.shield(holding)
        except BaseException:
            failure = f"response {accepted.response_id} keeps its lease and key until they expire"
            self._cleanup.schedule(self._give_back(accepted, holding), failure)
            raise

    async def run(self, accepted: AcceptedTurn, receive: Receive, flow: Flow, *, state: LogState | None = None) -> None:
        """Runs a turn whose job this edge holds, and returns when the turn has ended. `state` is the event log so far,
        if another edge began the turn.

        Cancelling only detaches the receiver: the turn goes on, and keeps its stream slot. Unavailable: this edge is
        shutting down, and leaves the turn to the next one.
        """
        receiver = _DetachableReceiver(receive)
        run = TurnRun(accepted, receiver.receive, state=state or LogState(), delivery=Delivery.KEYED)
        if state is not None:
            metrics.TAKEOVERS.of("edge").add()
        running = asyncio.create_task(
            self._run(run, is_takeover=state is not None), name=f"turn {accepted.response_id}"
        )
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            with flow.listening(pause=lambda: run.flow.pause(receiver), resume=lambda: run.flow.resume(receiver)):
                await asyncio.wait([running])
        finally:
            receiver.detach()
            run.flow.resume(receiver)
        if running.cancelled():
            raise Unavailable.at_shutdown("Send the request again to continue the response.")
        running.result()

    @property
    def running(self) -> int:
        """The number of turns that run here."""
        return len(self._running)

    async def stop(self) -> None:
        """Cancels the turns that still run. The next edge that gets a request with the same key continues the turn."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, run: TurnRun, *, is_takeover: bool) -> None:
        accepted = run.accepted
        run.event_log = EventLogWriter(
            self._store,
            accepted.tenant,
            accepted.response_id,
            under_fence=accepted.under_fence,
            ids_before=len(run.state.token_ids),
            flow=run.flow,
            timing=self._timing,
            on_lost=run.break_off,
        )
        with stream_slots.held_by_task():
            async with self._keyed_jobs.kept(accepted):
                await self._runner.run(run, self._takeover_policy if is_takeover else self._policy)

    async def _give_back(self, accepted: AcceptedTurn, holding: asyncio.Task[AcceptedTurn | None]) -> None:
        """Waits for `holding`, and gives the turn back unless another edge has its job."""
        with suppress(Exception):
            await asyncio.wait([holding])
        held = accepted if holding.exception() is not None else holding.result()
        if held is not None:
            await self._policy.give_back(held)


class _DetachableReceiver:
    """Passes batches on until it is detached, or the receiver fails."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def receive(self, batch: Batch) -> None:
        try:
            self._receive(batch)
        except Exception:
            log.exception(
                "the receiver of a keyed turn failed and was detached; the turn goes on", extra=remedies.REPORT
            )
            self.detach()

    def detach(self) -> None:
        self._receive = discard
