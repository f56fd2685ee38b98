"""Runs accepted turns, from the first event to the terminal event.

Every turn runs here: for a caller that waits, under an idempotency key, over a WebSocket, or for a worker. The runner
keeps the leases of the turn (its session, its job and its key) and writes its event log, if it is durable. A *policy*
makes the difference: it prepares each attempt, decides whether an error is retried, ends the turn, and handles the
cancellation of its runner (caller_policy.py, background/background_policy.py).

A batch goes from the engine's read to its receivers in plain calls: translator -> `Generation` -> the turn's receiver
and the writer of its event log. The terminal batch is held back here until the record is committed, so that a client
that saw `response.completed` can continue the response at once, on any edge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from antiphon_core import offload
from antiphon_core.errors import SessionLost, ToolsUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.event_logs import Step
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobPulse
from antiphon_core.ports.store import Approval
from antiphon_core.ports.translator import Batch, Receive, Translator, Turn
from antiphon_core.request.prompt_cache import COMPARISON
from antiphon_core.tracebacks import release_frames
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.sealed.reasoning import Change
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns import event_logs, leases, turn_approvals
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.ended_turns import EndedTurns
from antiphon_edge.turns.event_logs import EventLogWriter
from antiphon_edge.turns.generation import Generation, Interrupt, LogState
from antiphon_edge.turns.leases import JobLease
from antiphon_edge.turns.turn_finisher import final_of
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_edge.turns.turn_watch import Delivery, TurnWatch


def discard(_batch: Batch) -> None:
    """Drops a batch: the receiver of a turn whose events go only to its event log."""


@dataclass(eq=False)
class TurnRun:
    """One turn while it runs."""

    accepted: AcceptedTurn
    receive: Receive = discard
    """Gets each batch of the turn, the terminal one included."""
    flow: Flow = field(default_factory=Flow)
    state: LogState = field(default_factory=LogState)
    """The events that were sent so far, by this runner and by those before it."""
    event_log: EventLogWriter | None = None
    """Writes the event log of a durable turn; its runner opens it, and its policy closes it."""
    with_context: bool = True
    """Whether the history of a turn that is not stored is sealed into its terminal batch, for its client."""
    on_ending: Callable[[], None] = lambda: None
    """Called before the end of the turn is stored. From then on, cancelling the runner has no effect."""
    interrupt: Interrupt = field(default_factory=Interrupt)
    approved: Sequence[Approval] = ()
    """The approvals of the calls that the turn has to run first."""
    delivery: Delivery = Delivery.CALLER
    on_pulse: Callable[[JobPulse], None] = lambda _pulse: None
    """Called after each renewal of the job's lease."""
    watch: TurnWatch = field(init=False)
    _unsent: Batch | None = field(default=None, init=False)
    """A batch whose append is not known to have succeeded."""

    def __post_init__(self) -> None:
        self.watch = TurnWatch(self.accepted, self.delivery)

    @property
    def calls_servers(self) -> bool:
        """Whether the request declares tools that this server runs."""
        return bool(self.accepted.declared)

    def deliver(self, batch: Batch) -> None:
        """Sends a batch into the event log and to the receiver."""
        self.watch.note_batch(batch.frames)
        if self.event_log is not None:
            self.event_log.put(batch)
        self.receive(batch)

    async def record(self, batch: Batch, steps: Sequence[Step], sends: Sequence[str] = ()) -> None:
        """Sends a batch after it is durable together with `steps`, if the turn has an event log. `sends`: the approvals
        whose calls are sent next. Raises the error of an append that failed; the batch is sent with the end of the turn
        then, because a later flush may append it."""
        self.state.feed(batch)
        self._unsent = batch
        if self.event_log is not None:
            self.event_log.put(batch, steps, sends)
            await self.event_log.flush()
        for step in steps:
            self.state.note_step(step)
        self._send_unsent()

    def _send_unsent(self) -> None:
        batch, self._unsent = self._unsent, None
        if batch is not None:
            self.watch.note_batch(batch.frames)
            self.receive(batch)

    def end(self, batch: Batch) -> None:
        """Sends the terminal batch, whose record is safe, to the receiver."""
        if self._unsent is not None:
            self._send_unsent()
        self.watch.note_end(final_of(batch))
        self.receive(batch)

    @property
    def is_left_by_client(self) -> bool:
        """Whether a turn whose runner is cancelled ends with a record of its own, and no other runner continues it."""
        ends_with_caller = self.delivery is Delivery.CALLER and self.accepted.is_stored
        return ends_with_caller and self.interrupt.error is None

    def break_off(self, error: Exception) -> None:
        """Stops the model, and passes `error` to the policy's `failed`."""
        self.interrupt.break_off(error)

    async def flush_log(self) -> None:
        """Appends all events to the event log, if there is one. Raises the error of an append that failed."""
        if self.event_log is not None:
            await self.event_log.flush()

    async def close_log(self) -> None:
        """Stops the writer of the event log, and drops the events that are not appended yet."""
        if self.event_log is not None:
            await self.event_log.close()


Generate = Callable[[Turn], Awaitable[Batch]]
"""Runs one round of a turn, and returns its last batch."""
RunRounds = Callable[[TurnRun, Generate], Awaitable[Batch]]
"""Runs all rounds of a turn, and returns the terminal batch."""


async def without_tools(_run: TurnRun, _generate: Generate) -> Batch:
    """Rejects a turn with tools of servers, in a process that cannot call them. Another one may have its job."""
    raise ToolsUnavailable("This process calls no tools of servers.")


class TurnPolicy(Protocol):
    """The decisions of a turn that depend on how it is delivered."""

    async def take_up(self, run: TurnRun) -> None:
        """Prepares the turn, before the engine is called. Its errors go to `fail`."""

    def require_end(self, run: TurnRun, terminal: Batch) -> None:
        """Raises the error of a failed terminal batch if another attempt may succeed. The error goes to `fail`."""

    async def finish(self, run: TurnRun, terminal: Batch) -> None:
        """Stores the record and sends the terminal batch."""

    async def fail(self, run: TurnRun, error: Exception) -> None:
        """Ends the turn after `error`, or raises."""

    async def leave(self, run: TurnRun) -> None:
        """Ends a turn whose runner was cancelled, or leaves it to another runner. The model is stopped already."""


class TurnRunner:
    """Runs turns. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        translator: Translator,
        *,
        sealer: Sealer,
        cleanup: Cleanup,
        timing: TurnTiming,
        long_work: LongWork,
        ended_turns: EndedTurns,
        run_rounds: RunRounds = without_tools,
    ) -> None:
        """`run_rounds` generates turns that call tools of servers."""
        self._run_rounds = run_rounds
        self._long_work = long_work
        self._store = store
        self._ended_turns = ended_turns
        self._translator = translator
        self._sealer = sealer
        self._cleanup = cleanup
        self._timing = timing
        self._paces = dict.fromkeys(Delivery, timing.job_pace) | {Delivery.BACKGROUND: timing.cancel_pace}

    async def run(self, run: TurnRun, policy: TurnPolicy) -> None:
        """Runs a turn, and returns when it has ended. A turn that was decoded from a job continues where its event log
        ends.

        Cancelling `run` stops the model first; `policy.leave` then runs in a task of its own. Raises the errors that
        the policy raises.
        """
        lease = run.accepted.job_lease
        if lease is None:
            await self._run(run, policy)
            return
        async with lease.run_renewals(*self._renewals_of(run, lease)):
            if run.accepted.is_from_job:
                run.state = await event_logs.read_state(self._store, run.accepted.tenant, run.accepted.response_id)
            if not run.state.is_over:
                run.event_log = self._event_log_of(run)
                await self._run(run, policy)

    async def _run(self, run: TurnRun, policy: TurnPolicy) -> None:
        with run.watch.running():
            is_ending = False
            try:
                terminal = await self._generate(run, policy)
                is_ending = True
                run.on_ending()
                await policy.finish(run, terminal)
            except Exception as error:
                if is_ending:
                    raise
                is_ending = True
                run.on_ending()
                await policy.fail(run, error)
                release_frames(error)
            finally:
                if not is_ending:
                    failure = f"the end of response {run.accepted.response_id} could not be stored"
                    self._cleanup.schedule(policy.leave(run), failure)

    def _event_log_of(self, run: TurnRun) -> EventLogWriter:
        return EventLogWriter(
            self._store,
            run.accepted.tenant,
            run.accepted.response_id,
            under_fence=run.accepted.under_fence,
            ids_before=len(run.state.token_ids),
            flow=run.flow,
            timing=self._timing,
            on_lost=run.break_off,
        )

    def _renewals_of(self, run: TurnRun, lease: JobLease) -> Sequence[AbstractAsyncContextManager[None]]:
        """The renewals of the turn's job, and of its key, if it has one. A lost job stops the model."""
        accepted, timing = run.accepted, self._timing

        async def renew_job() -> None:
            run.on_pulse(await lease.renew(ttl_ms=timing.job_lease_ms))

        renewals = [
            leases.keep_renewed(f"job {accepted.response_id}", renew_job, self._paces[run.delivery], run.break_off)
        ]
        if accepted.key is not None:
            name = f"key of {accepted.response_id}"
            claim = partial(self._store.begin_turn, accepted.tenant, accepted.key_claim)
            renewals.append(leases.keep_renewed(name, claim, timing.key_pace))
        return renewals

    async def _generate(self, run: TurnRun, policy: TurnPolicy) -> Batch:
        """Generates the turn, and returns its terminal batch."""
        await policy.take_up(run)
        if run.accepted.consumes:
            run.approved = await turn_approvals.hold(self._store, run.accepted)
        accepted = run.accepted
        if COMPARISON in accepted.turn.request:
            compared = await self._ended_turns.compared_with(accepted.turn)
            accepted = run.accepted = replace(accepted, turn=replace(accepted.turn, compared=compared))
        change = await self._change_of(run)
        long_work = self._long_work.reserve(accepted.tenant, accepted.turn.size_bytes)
        async with self._renewal_of_session(run), long_work as prepared:
            deliver = run.deliver if prepared is None else _after(prepared, run.deliver)
            generation = partial(self._generation, run, deliver, change)
            if run.calls_servers or run.approved:
                terminal = await self._run_rounds(run, lambda turn: generation(turn).run())
            else:
                terminal = await generation(accepted.turn).run()
        policy.require_end(run, terminal)
        return terminal

    def _generation(self, run: TurnRun, deliver: Receive, change: Change | None, turn: Turn) -> Generation:
        return Generation(
            self._translator, turn, deliver, flow=run.flow, state=run.state, change=change, interrupt=run.interrupt
        )

    async def _change_of(self, run: TurnRun) -> Change | None:
        """Makes the change that each batch goes through before it is sent."""
        accepted, turn = run.accepted, run.accepted.turn
        size_bytes = len(turn.request) + len(turn.input)
        if size_bytes <= offload.INLINE_BYTES_MAX and not _has_marks(turn):
            return None
        look = partial(
            sealed_items.changes_of,
            accepted.tenant,
            turn,
            self._sealer,
            sent=run.state.output,
            with_context=run.with_context and not accepted.is_stored,
        )
        return await offload.run(look, size_bytes=size_bytes)

    def _renewal_of_session(self, run: TurnRun) -> AbstractAsyncContextManager[None]:
        """The renewal of the lease of the turn's session, if it has one. A lease that is lost stops the model."""
        lease = run.accepted.lease
        if lease is None:
            return nullcontext()
        session_id = lease.fence.session_id
        return leases.keep_renewed(
            f"session {session_id}",
            partial(self._store.renew_session, run.accepted.tenant, lease.fence),
            self._timing.session_pace,
            on_lost=lambda _: run.break_off(SessionLost.of(session_id)),
        )


def _has_marks(turn: Turn) -> bool:
    """Whether the response of a turn may have content to seal. Of most turns it has none."""
    marks = sealed_items.MARKS
    return any(map(turn.request.__contains__, marks)) or any(map(turn.input.__contains__, marks))


def _after(prepared: Callable[[], None], receive: Receive) -> Receive:
    """Calls `prepared` before each batch: the first one comes when the translator has read and rendered the turn."""

    def receive_prepared(batch: Batch) -> None:
        prepared()
        receive(batch)

    return receive_prepared
