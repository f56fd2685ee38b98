"""The turn: history from the store, events from the translator, the record back to the store.

This module owns the order of things, and nothing else may commit a response:

1. A response is committed before its terminal event is passed on, so that whoever saw `response.completed` can
   continue it at once, anywhere.
2. Whatever happens, a turn that produced its first event ends in exactly one terminal state. When no translator can
   go on with it, or the store cannot take the record, the turn is ended here: the events so far are folded, and
   `error` and `response.failed` follow with the next sequence numbers.
3. When the caller goes away, the model is stopped first and the record is written as cancelled afterwards, by a task
   of its own: the caller's cancellation must not undo it.
4. A request that is repeated under its idempotency key runs once: the others read what it said (repeating.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing

from antiphon_core import response
from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, revive
from antiphon_core.ids import Ids
from antiphon_core.jsons import loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Translator
from antiphon_core.request import CreateRequest
from antiphon_edge import leases, sealed_items
from antiphon_edge.beginning import Beginnings
from antiphon_edge.begun import Begun, Repeated
from antiphon_edge.ending import Endings
from antiphon_edge.event_log import EventLogWriter
from antiphon_edge.generation import Generation
from antiphon_edge.repeating import Repetitions
from antiphon_edge.sealing import SEALED_TTL_S, Sealer, SealingKeys

log = logging.getLogger(__name__)

OnGenerated = Callable[[str, bytes], Awaitable[None]]  # the tenant, and the response as the translator ended it


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
        on_generated: OnGenerated | None = None,
    ) -> None:
        """Without a `sealer` what is sealed can be opened by this process alone."""
        self._store = store
        self._on_generated = on_generated
        self._translator = translator
        sealer = sealer or Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=clock)
        self.beginnings = Beginnings(store, clock=clock, ids=ids, sealer=sealer)
        self._repetitions = Repetitions(store)
        self._endings = Endings(store)
        self._tidying: set[asyncio.Task[None]] = set()

    async def stream(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> AsyncGenerator[Batch, None]:
        """The events of a new response, in batches. Raises before the first batch for what is wrong with the request.

        Close the generator to give the turn up: the model stops within one token.
        """
        begun = await self.beginnings.begin(tenant, request, session_id=session_id, key=key)
        stream = self._repetitions.stream(begun) if isinstance(begun, Repeated) else self.run(begun)
        async with aclosing(stream) as batches:
            async for batch in batches:
                yield batch

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

    async def settle(self) -> None:
        """Waits for the records of turns whose caller went away."""
        await asyncio.gather(*self._tidying)

    async def run(self, begun: Begun, *, with_context: bool = True) -> AsyncGenerator[Batch, None]:
        """The events of a turn that was accepted, as `stream` tells them. Whoever begins a turn runs it at once: an
        accepted turn that is dropped keeps what it took. `with_context` is for sealed_items.changes_of."""
        change = sealed_items.changes_of(begun, self.beginnings.sealer, with_context=with_context)
        generation = Generation(self._translator, begun.turn, change=change)
        fold = generation.fold
        event_log = EventLogWriter(self._store, begun.tenant, begun.response_id) if begun.logged else None
        ended = False
        try:
            async with leases.kept(self._store, begun.tenant, begun.lease), aclosing(generation.batches()) as batches:
                async for batch in batches:
                    if batch.final is not None:
                        ended = True
                        await _flush(event_log)
                        if self._on_generated is not None:
                            await self._on_generated(begun.tenant, batch.final.body)
                        yield await self._endings.end(begun, fold, batch, batch.final)
                        return
                    if event_log is not None:
                        event_log.put(batch)
                    yield batch
        except Exception as error:
            if fold.next_sequence == 0 or ended:
                raise
            ended = True
            await _flush(event_log)
            yield await self._endings.fail(begun, fold, error)
        finally:
            if not ended:
                self._later(self._give_up(begun, generation, event_log), begun)

    async def _give_up(self, begun: Begun, generation: Generation, event_log: EventLogWriter | None) -> None:
        """Ends a turn that nobody waits for any more: with a record, if it said anything."""
        if generation.fold.next_sequence == 0:
            await self.beginnings.give_up(begun)
            return
        await _flush(event_log)
        await self._endings.cancel(begun, generation.fold)

    def _later(self, work: Coroutine[None, None, None], begun: Begun) -> None:
        """Does something in a task of its own, that outlives its caller."""

        async def do() -> None:
            try:
                await work
            except AntiphonError as error:
                log.error("the end of response %s could not be stored: %s", begun.response_id, error)

        task = asyncio.create_task(do())
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)


async def _flush(event_log: EventLogWriter | None) -> None:
    """Brings the log up to date, as far as that can be done: the record will say what became of the turn."""
    if event_log is not None:
        try:
            await event_log.flush()
        except AntiphonError as error:
            log.error("the event log is broken: %s", error)


def _body_or_raise(final: Final) -> bytes:
    if final.status is Status.FAILED:
        message = loads(final.body)["error"]["message"]
        raise revive(final.error_reason or "INTERNAL", message, {})
    return response.join(final.body, final.output_items)
