"""The turn: history from the store, events from the translator, the record back to the store.

This module owns the order of things, and nothing else may commit a response:

1. A response is committed before its terminal event is passed on, so that whoever saw `response.completed` can
   continue it at once, anywhere.
2. Whatever happens, a turn that produced its first event ends in exactly one terminal state. When no translator can
   go on with it, or the store cannot take the record, the turn is ended here: the events so far are folded, and
   `error` and `response.failed` follow with the next sequence numbers.
3. When the caller goes away, the model is stopped first and the record is written as cancelled afterwards, by a task
   of its own: the caller's cancellation must not undo it.
4. A turn under an idempotency key runs once, and does not end with its caller: who asks again, or at the same time,
   reads what it says, and goes on with it when its edge is gone (repeating.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon_core import response
from antiphon_core.clock import Clock
from antiphon_core.ids import Ids
from antiphon_core.jsons import loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Translator
from antiphon_core.request import CreateRequest
from antiphon_edge.sealed.sealing import Sealer, SealingKeys
from antiphon_edge.settings import SEALED_TTL_S
from antiphon_edge.turns.beginning import Beginnings
from antiphon_edge.turns.begun import Begun, Repeated
from antiphon_edge.turns.holding import Holdings
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.repeating import Repetitions
from antiphon_edge.turns.running import Runs


class Turns:
    """Runs turns for callers that wait for them. One instance serves all requests of a process."""

    def __init__(
        self,
        store: FullStore,
        translator: Translator,
        *,
        clock: Clock,
        ids: Ids,
        sealer: Sealer | None = None,
        wait_ms: int = 0,
        meter: Meter | None = None,
    ) -> None:
        """Without a `sealer` what is sealed can be opened by this process alone. `wait_ms` is for Beginnings."""
        self._store = store
        self._translator = translator
        sealer = sealer or Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=clock)
        self.beginnings = Beginnings(store, clock=clock, ids=ids, sealer=sealer, wait_ms=wait_ms)
        self._holdings = Holdings(store, ids=ids)
        self._runs = Runs(store, translator, self.beginnings, self._holdings, meter)
        self._repetitions = Repetitions(store, self._runs, self._holdings)

    async def stream(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> AsyncGenerator[Batch, None]:
        """The events of a new response, in batches. Raises before the first batch for what is wrong with the request.

        Close the generator to give the turn up: the model stops within one token.
        """

        async def begin() -> Begun | Repeated:
            return await self.beginnings.begin(tenant, request, session_id=session_id, key=key)

        begun = await begin() if key is None else None
        stream = self.run(begun) if isinstance(begun, Begun) else self._repetitions.stream(begin)
        async with aclosing(stream) as batches:
            async for batch in batches:
                yield batch

    def run(self, begun: Begun, *, with_context: bool = True) -> AsyncGenerator[Batch, None]:
        """The events of a turn that was accepted without a key, as `stream` tells them. Whoever begins a turn runs it
        at once: an accepted turn that is dropped keeps what it took. `with_context` is for sealed_items.changes_of."""
        return self._runs.run(begun, with_context=with_context)

    async def complete(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> bytes:
        """A whole new response as JSON. Raises what `stream` would report as response.failed."""
        async with aclosing(self.stream(tenant, request, session_id=session_id, key=key)) as batches:
            async for batch in batches:
                if batch.final is not None:
                    return _body_or_raise(batch.final)
        raise AssertionError("a stream of batches ended without a final one")

    async def count_tokens(self, tenant: str, request: CreateRequest) -> int:
        """The tokens of a request's prompt. It takes nothing and leaves nothing behind."""
        turn = await self.beginnings.look(tenant, request)
        return await self._translator.count_tokens(turn)

    async def is_running(self, tenant: str, response_id: str) -> bool:
        """Whether callers wait for this response, as far as the store knows of it before its end: under a key. What
        this process knows besides is left out, for no other replica could say the same."""
        return await self._holdings.is_open(tenant, response_id)

    async def settle(self) -> None:
        """Waits for the records of turns whose caller went away. Those under a key are left to others."""
        await self._runs.stop()
        await self.beginnings.tidying.settle()


def _body_or_raise(final: Final) -> bytes:
    if final.status is Status.FAILED:
        raise response.error_of(loads(final.body))
    return response.join(final.body, final.output_items)
