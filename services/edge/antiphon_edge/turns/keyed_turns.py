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
    """One instance serves all of a process."""

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
        """The turn with the lease of its job; None when another edge took the turn up first. A caller that leaves in
        between leaves nothing behind."""
        holding = self._cleanup.start(self._keyed_jobs.hold(accepted))
        try:
            return await asyncio.shield(holding)
        except BaseException:
            failure = f"response {accepted.response_id} keeps its lease and key until they expire"
            self._cleanup.schedule(self._give_back(accepted, holding), failure)
            raise

    async def run(self, accepted: AcceptedTurn, receive: Receive, flow: Flow, *, state: LogState | None = None) -> None:
        """Runs a held turn, behind `state` if another edge began it, and returns when it has its end.

        Cancelling only takes the receiver away. The turn keeps its stream slot as long as it runs. Unavailable: this
        edge is shutting down, and leaves the turn to the next one.
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
            with flow.fed_by(pause=lambda: run.flow.pause(receiver), resume=lambda: run.flow.resume(receiver)):
                await asyncio.wait([running])
        finally:
            receiver.detach()
            run.flow.resume(receiver)
        if running.cancelled():
            raise Unavailable("The server is shutting down. Send the request again: the response goes on.")
        running.result()

    async def stop(self) -> None:
        """Leaves the turns that still run to the next edge that is asked for them."""
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
        """Gives back a turn that was being taken up for a caller who left, once the outcome is known."""
        with suppress(Exception):
            await asyncio.wait([holding])
        held = accepted if holding.exception() is not None else holding.result()
        if held is not None:
            await self._policy.give_back(held)


class _DetachableReceiver:
    """Passes batches on until the client is gone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def receive(self, batch: Batch) -> None:
        try:
            self._receive(batch)
        except Exception:
            log.exception("a client of a turn that goes on was dropped", extra=remedies.REPORT)
            self.detach()

    def detach(self) -> None:
        self._receive = discard
