"""Turns for callers that wait: history from the store, events from the translator, the record back to the store.

1. A response is committed before its terminal event is sent, so that a client that saw `response.completed` can
   continue the response at once, on any edge.
2. A turn that produced its first event ends in exactly one terminal state. When no translator can continue the turn, or
   the store cannot take the record, `error` and `response.failed` follow, with the output so far.
3. When the client disconnects, the model is stopped first. Then a separate task, which the request's cancellation does
   not reach, writes the record as cancelled.
4. A turn under an idempotency key runs once and continues when its client disconnects. A repeated request is sent the
   same events, and takes the turn over if the edge that ran the turn has died (keyed_turns.py).

turn_runner.py runs a turn, with the policy of caller_policy.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from antiphon_core import response
from antiphon_core.errors import Unavailable, row_of
from antiphon_core.flow import Flow
from antiphon_core.jsons import loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Receive, Translator
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import metrics
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.caller_policy import CallerPolicy
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.durable_turns import TurnJobs
from antiphon_edge.turns.keyed_turns import KeyedTurns
from antiphon_edge.turns.lost_turns import LostTurns
from antiphon_edge.turns.turn_runner import TurnRun, TurnRunner
from antiphon_edge.turns.turn_starter import TurnStarter


class TurnService:
    """Runs turns for callers that wait for them. One instance serves all requests of a process."""

    def __init__(
        self,
        translator: Translator,
        starter: TurnStarter,
        runner: TurnRunner,
        jobs: TurnJobs,
        keyed_turns: KeyedTurns,
        lost_turns: LostTurns,
        *,
        policy: CallerPolicy,
        cleanup: Cleanup,
    ) -> None:
        self._translator = translator
        self._starter = starter
        self._runner = runner
        self._jobs = jobs
        self._keyed_turns = keyed_turns
        self._lost_turns = lost_turns
        self._policy = policy
        self._cleanup = cleanup
        self._attached: set[TurnRun] = set()
        """The running turns that end with their caller, because they have no idempotency key."""
        self._shutdown: Unavailable | None = None
        """The error that ends such turns as they begin, once the process is being shut down."""

    async def send(
        self,
        tenant: str,
        request: CreateRequest,
        receive: Receive,
        flow: Flow,
        *,
        session_id: str | None = None,
        key: str | None = None,
    ) -> bool:
        """Sends all events of a new response, and returns after the terminal one. Raises before the first batch if the
        request is wrong. Returns whether this request began the turn: False if an earlier one with its key did.

        Cancellation stops the model within one token. A keyed turn continues after a cancellation.
        """
        begin = partial(self._starter.begin, tenant, request, session_id=session_id, key=key)
        if key is not None:
            return await self._keyed_turns.send(begin, receive, flow)
        accepted = await begin()
        if not isinstance(accepted, AcceptedTurn):
            raise AssertionError("only a request with an idempotency key can be repeated")
        await self.run(TurnRun(accepted, receive, flow))
        return True

    async def run(self, run: TurnRun) -> None:
        """Runs a turn that was accepted without a key, as `send` does. An accepted turn must be run: otherwise its
        session stays leased until the lease expires."""
        if run.accepted.is_stored and run.calls_servers:
            run.accepted = await self._with_journal(run.accepted)
        self._attached.add(run)
        if self._shutdown is not None:
            run.break_off(self._shutdown)
        try:
            await self._runner.run(run, self._policy)
        finally:
            self._attached.discard(run)

    async def _with_journal(self, accepted: AcceptedTurn) -> AcceptedTurn:
        """The turn with a job and an event log, which tell what was called if this edge dies (lost_turns.py)."""
        held = await self._keyed_turns.enqueue(replace(accepted, has_log=True))
        if held is None:
            raise AssertionError("no other edge knows the id of a new response")
        return held

    @property
    def running(self) -> int:
        """The number of turns that run here."""
        return len(self._attached) + self._keyed_turns.running

    async def break_off(self, error: Unavailable) -> None:
        """Ends the turns of waiting callers with `error`, and later ones as they begin. Keyed turns are left to other
        edges instead, and their callers get an error that says so."""
        self._shutdown = error
        for run in list(self._attached):
            run.break_off(error)
        await self._keyed_turns.stop()

    async def complete(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> bytes:
        """Returns a whole new response as JSON. Raises the error that `send` would send as response.failed."""
        collector = _Collector()
        is_new = await self.send(tenant, request, collector.receive, Flow(), session_id=session_id, key=key)
        return collector.body(is_new=is_new)

    async def count_tokens(self, tenant: str, request: CreateRequest, *, session_id: str | None = None) -> int:
        """Counts the tokens of a request's prompt, with the history of its session. Takes no lease and stores
        nothing."""
        turn = await self._starter.look(tenant, request, session_id=session_id)
        return await self._translator.count_tokens(turn)

    async def end_if_lost(self, tenant: str, response_id: str) -> bool:
        """Ends a turn whose edge was lost, if nobody will continue it. Returns whether it has a record now."""
        return await self._lost_turns.end_if_lost(tenant, response_id)

    async def is_running(self, tenant: str, response_id: str) -> bool:
        """Whether a keyed turn with this id is queued or running on any edge. Other turns are stored when they end."""
        return await self._jobs.is_open(tenant, response_id)

    async def settle(self) -> None:
        """Leaves keyed turns to other edges, and waits for the records of turns whose client disconnected."""
        await self._keyed_turns.stop()
        await self._cleanup.settle()


class _Collector:
    """The receiver of a response that is not streamed: keeps its final state."""

    def __init__(self) -> None:
        self._final: Final | None = None

    def receive(self, batch: Batch) -> None:
        self._final = batch.final

    def body(self, *, is_new: bool) -> bytes:
        """The response as JSON. Raises the error of a failed one, and counts the answer if the turn `is_new`: that of a
        repeated request was counted with the first."""
        if self._final is None:
            raise AssertionError("a turn ended without a terminal batch")
        if self._final.status is Status.FAILED:
            error = response.error_of(loads(self._final.body))
            if is_new and row_of(error).http_status >= 500:
                metrics.TURN_FAILURES_ANSWERED.of().add()
            raise error
        return response.join(self._final.body, self._final.output_items)
