"""The turn: history from the store, events from the translator, the record back to the store.

This module owns the order of things, and nothing else may commit a response:

1. A response is committed before its terminal event is passed on, so that whoever saw `response.completed` can
   continue it at once, anywhere.
2. Whatever happens, a turn that produced its first event ends in exactly one terminal state. When the translator is
   lost in mid-stream, or the store cannot take the record, the turn is ended here: the events so far are folded, and
   `error` and `response.failed` follow with the next sequence numbers.
3. When the caller goes away, the model is stopped first and the record is written as cancelled afterwards, by a task
   of its own: the caller's cancellation must not undo it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from antiphon_core import events, response
from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, InternalError, PreviousResponseNotFound, Timeout, Unavailable, revive
from antiphon_core.fold import Fold
from antiphon_core.ids import Ids, is_response_id, new_response_id
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import History, Record, ResponseStore, Status, TurnCommit, TurnRequest, TurnStart
from antiphon_core.ports.translator import Batch, Final, Translator, Turn
from antiphon_core.request import CreateRequest

log = logging.getLogger(__name__)

COMMIT_TRIES = 2


@dataclass(frozen=True, slots=True)
class _Begun:
    """A turn that was accepted: what to generate, and what its record will hold beside the result."""

    tenant: str
    turn: Turn
    parent_id: str | None
    keep: bool


class Turns:
    """Runs turns. One instance serves all requests of a process."""

    def __init__(self, store: ResponseStore, translator: Translator, *, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._translator = translator
        self._clock = clock
        self._ids = ids
        self._endings: set[asyncio.Task[None]] = set()

    async def stream(self, tenant: str, request: CreateRequest) -> AsyncGenerator[Batch, None]:
        """The events of a new response, in batches. Raises before the first batch for what is wrong with the request.

        Close the generator to give the turn up: the model stops within one token.
        """
        begun = await self._begin(tenant, request)
        fold = Fold()
        ended = False
        try:
            async with aclosing(self._translator.generate(begun.turn)) as batches:
                async for batch in batches:
                    if batch.final is not None:
                        ended = True
                        yield await self._end(begun, fold, batch, batch.final)
                        return
                    fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                    yield batch
        except Exception as error:
            if fold.next_sequence == 0 or ended:
                raise
            ended = True
            yield await self._fail(begun, fold, error)
        finally:
            if fold.next_sequence > 0 and not ended:
                self._cancel_later(begun, fold)

    async def complete(self, tenant: str, request: CreateRequest) -> bytes:
        """A whole new response as JSON. Raises what `stream` would report as response.failed."""
        async with aclosing(self.stream(tenant, request)) as batches:
            async for batch in batches:
                if batch.final is not None:
                    return _body_or_raise(batch.final)
        raise AssertionError("a stream of batches ended without a final one")

    async def settle(self) -> None:
        """Waits for the records of turns whose caller went away."""
        await asyncio.gather(*self._endings)

    async def _begin(self, tenant: str, request: CreateRequest) -> _Begun:
        previous = request.previous_response_id
        start = TurnStart(History())
        if previous is not None:
            if not is_response_id(previous):
                raise PreviousResponseNotFound.of(previous)
            start = await self._store.begin_turn(tenant, TurnRequest(previous_response_id=previous))
        turn = Turn(
            response_id=new_response_id(self._ids, relative=previous),
            created_at=self._clock.now_ms() // 1000,
            request=dumps(request.asked()),
            history=start.history.items,
            input=dumps(normalise_input(request.input_given, self._ids)),
        )
        return _Begun(tenant=tenant, turn=turn, parent_id=previous, keep=request.store is not False)

    async def _end(self, begun: _Begun, fold: Fold, batch: Batch, final: Final) -> Batch:
        """The terminal batch, once its record is safe; a failure in its place when it cannot be made safe."""
        try:
            await self._commit(begun, final)
        except AntiphonError as error:
            log.error("response %s could not be stored: %s", begun.turn.response_id, error)
            return _failure(fold, error)[0]
        return batch

    async def _fail(self, begun: _Begun, fold: Fold, error: Exception) -> Batch:
        """The terminal batch of a turn that broke after its first event."""
        if not isinstance(error, AntiphonError):
            log.error("response %s broke", begun.turn.response_id, exc_info=error)
            error = InternalError("The server had an error while generating this response.")
        log.warning("response %s was cut off: %s", begun.turn.response_id, error)
        return await self._end(begun, fold, *_failure(fold, error))

    def _cancel_later(self, begun: _Begun, fold: Fold) -> None:
        """Writes the record of a turn that nobody waits for any more."""
        body, output_items = response.split(response.cancelled(fold.response()))
        final = Final(status=Status.CANCELLED, body=body, output_items=output_items)

        async def write() -> None:
            try:
                await self._commit(begun, final)
            except AntiphonError as error:
                log.error("cancelled response %s could not be stored: %s", begun.turn.response_id, error)

        task = asyncio.create_task(write())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _commit(self, begun: _Begun, final: Final) -> None:
        if not begun.keep:
            return
        commit = TurnCommit(
            record=Record(
                id=begun.turn.response_id,
                status=final.status,
                body=final.body,
                input_items=begun.turn.input,
                output_items=final.output_items,
                parent_id=begun.parent_id,
            )
        )
        for attempt in range(1, COMMIT_TRIES + 1):
            try:
                await self._store.commit_turn(begun.tenant, commit)
                return
            except (Unavailable, Timeout):
                # It may have happened all the same: committing the same record again is harmless.
                if attempt == COMMIT_TRIES:
                    raise


def _failure(fold: Fold, error: AntiphonError) -> tuple[Batch, Final]:
    """The end of a stream that broke: the `error` event, then response.failed with everything there was."""
    code, message = "server_error", error.message
    ended = response.failed(fold.response(), code=code, message=message)
    first = fold.next_sequence
    failed: Object = {"type": events.FAILED, "sequence_number": first + 1, "response": ended}
    body, output_items = response.split(ended)
    final = Final(status=Status.FAILED, body=body, output_items=output_items, error_reason=error.reason)
    frames = events.encode(events.error_event(first, code=code, message=message)) + events.encode(failed)
    return Batch(first_sequence=first, count=2, frames=frames, final=final), final


def _body_or_raise(final: Final) -> bytes:
    if final.status is Status.FAILED:
        message = loads(final.body)["error"]["message"]
        raise revive(final.error_reason or "INTERNAL", message, {})
    return response.join(final.body, final.output_items)
