"""Running turns that were accepted, from the first event to the one terminal one.

A turn without an idempotency key ends with its caller: the model is stopped first, and the record is written as
cancelled afterwards. A turn under a key goes on, for the caller that comes back. One that failed before its model said
anything, for a reason that passes, is not remembered under its key: who asks again is served anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from antiphon_core.errors import AntiphonError, SessionLocked, SessionLost
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Batch, Translator
from antiphon_edge.door import places
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.turns import leases
from antiphon_edge.turns.beginning import Beginnings
from antiphon_edge.turns.begun import Begun
from antiphon_edge.turns.ending import Endings
from antiphon_edge.turns.event_log import EventLogWriter
from antiphon_edge.turns.generation import Generation
from antiphon_edge.turns.holding import Holdings
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.store_patience import asked_again
from antiphon_edge.turns.told import Told

log = logging.getLogger(__name__)


class Runs:
    """Runs turns. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        translator: Translator,
        beginnings: Beginnings,
        holdings: Holdings,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._translator = translator
        self._beginnings = beginnings
        self._holdings = holdings
        self._meter = meter or Meter()
        self.endings = Endings(store)
        self._tidying = beginnings.tidying
        self._detached: set[asyncio.Task[None]] = set()

    async def run(
        self, begun: Begun, told: Told | None = None, *, with_context: bool = True
    ) -> AsyncGenerator[Batch, None]:
        """The events of a turn, behind those that were `told` already. Closing the generator gives the turn up.
        `with_context` is for sealed_items.changes_of."""
        is_taken_over, told = told is not None, told or Told()
        said = told.fold.response().get("output", ())
        change = sealed_items.changes_of(begun, self._beginnings.sealer, told=said, with_context=with_context)
        generation = Generation(self._translator, begun.turn, fold=told.fold, token_ids=told.token_ids, change=change)
        event_log = self._log_of(begun, told)
        ended = False
        try:
            if is_taken_over:
                begun = await self._in_its_session(begun)
            async with (
                leases.kept(self._store, begun.tenant, begun.lease) as lease,
                aclosing(lease.while_kept(generation.batches())) as batches,
            ):
                async for batch in batches:
                    if batch.final is not None:
                        ended = True
                        yield await self._tidying.finished(self._end(begun, generation, event_log, batch))
                        return
                    yield batch
                    if event_log is not None:
                        event_log.put(batch)
        except Exception as error:
            if ended:
                raise
            ended = True
            if generation.fold.next_sequence == 0:
                await self._tidying.finished(self._give_up(begun, generation, event_log))
                raise
            yield await self._tidying.finished(self._end(begun, generation, event_log, error))
        finally:
            if not ended:
                what = f"the end of response {begun.response_id} could not be stored"
                self._tidying.later(self._give_up(begun, generation, event_log), what)

    async def detached(self, begun: Begun, told: Told | None = None) -> AsyncGenerator[Batch, None]:
        """The same, for a turn under a key: closing the generator does not stop it. It has the place of the request
        that it began with, as long as it runs."""
        news: asyncio.Queue[Batch | Exception | None] = asyncio.Queue()

        async def go() -> None:
            try:
                with places.held_on_to():
                    async with self._holdings.kept(begun), aclosing(self.run(begun, told)) as batches:
                        async for batch in batches:
                            news.put_nowait(batch)
            except Exception as error:  # noqa: BLE001 - its reader is the one to hear of it
                news.put_nowait(error)
            finally:
                news.put_nowait(None)

        task = asyncio.create_task(go(), name=f"turn {begun.response_id}")
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        while (each := await news.get()) is not None:
            if isinstance(each, Exception):
                raise each
            yield each

    async def hold(self, begun: Begun) -> Begun | None:
        """A turn under a key, to be run by this edge; None when another one took it up at once."""
        holding = self._tidying.start(self._holdings.hold(begun))
        try:
            return await asyncio.shield(holding)
        except BaseException:
            what = f"what response {begun.response_id} took is kept for a while"
            self._tidying.later(self._unhold(begun, holding), what)
            raise

    async def stop(self) -> None:
        """Leaves turns that still go on to whoever is asked for them next."""
        for task in self._detached:
            task.cancel()
        await asyncio.gather(*self._detached, return_exceptions=True)

    async def _in_its_session(self, begun: Begun) -> Begun:
        """A turn that was taken over, with the lease of its session. SessionLocked: others have it, or had it."""
        renewed = await self._beginnings.renew(begun)
        if renewed.lease is not None and renewed.parent_id != begun.parent_id:
            await self._store.release_session(begun.tenant, renewed.lease.fence)
            raise SessionLocked("The conversation went on while the response was interrupted.", field="conversation")
        return renewed

    def _log_of(self, begun: Begun, told: Told) -> EventLogWriter | None:
        if not begun.logged:
            return None
        return EventLogWriter(
            self._store,
            begun.tenant,
            begun.response_id,
            under=begun.under_fence,
            ids_before=len(told.token_ids),
        )

    async def _end(
        self, begun: Begun, generation: Generation, event_log: EventLogWriter | None, end: Batch | Exception
    ) -> Batch:
        """The terminal batch, once the record is safe."""
        begun = await _flushed(begun, event_log)
        if isinstance(end, SessionLocked):
            begun = replace(begun, lease=None)  # the record stands beside the conversation, not in it
        self._charge(begun, generation, end)
        if isinstance(end, SessionLost):
            ended = await self.endings.lost(begun, generation.fold, end)
        else:
            batch = self.endings.broken(begun, generation.fold, end) if isinstance(end, Exception) else end
            ended = await self.endings.end(begun, generation.fold, batch)
        if ended.unused is not None:
            await self._forget(ended.unused)
        else:
            await self._holdings.let_go(begun, is_over=ended.is_settled)
        return ended.batch

    def _charge(self, begun: Begun, generation: Generation, end: Batch | Exception) -> None:
        if isinstance(end, Batch) and end.final is not None:
            self._meter.ended(begun.tenant, end.final.body)
        else:
            self._meter.broke_off(begun.tenant, len(generation.token_ids))

    async def _give_up(self, begun: Begun, generation: Generation, event_log: EventLogWriter | None) -> None:
        """Ends a turn that nobody waits for any more: with a record, if it said anything. Under a key it is left to
        whoever comes back."""
        begun = await _flushed(begun, event_log)
        if generation.fold.next_sequence == 0:
            await self._forget(begun)
        elif begun.key is None:
            self._meter.broke_off(begun.tenant, len(generation.token_ids))
            await self.endings.cancel(begun, generation.fold)
        else:
            await self._holdings.let_go(begun, is_over=False)

    async def _unhold(self, begun: Begun, holding: asyncio.Task[Begun | None]) -> None:
        """Lets go of a turn that is being taken up for nobody, once it is known what came of that."""
        await asyncio.wait([holding])
        held = begun if holding.exception() is not None else holding.result()
        if held is not None:
            await self._forget(held)

    async def _forget(self, begun: Begun) -> None:
        """Lets go of what a turn took that came to nothing. Where somebody else runs it by now, all that is theirs."""
        if not await self._holdings.drop(begun):
            return
        try:
            await self._beginnings.give_up(begun)
        except AntiphonError as error:
            log.warning("%s keeps what it took until its time is over: %s", begun.response_id, error.message)


async def _flushed(begun: Begun, event_log: EventLogWriter | None) -> Begun:
    """The turn with its log up to date, or without one: the record will say what became of it."""
    if event_log is None:
        return begun
    try:
        await asked_again(event_log.flush)
    except AntiphonError as error:
        log.error("the event log of %s is given up: %s", begun.response_id, error.message)
        return replace(begun, logged=False)
    return begun
