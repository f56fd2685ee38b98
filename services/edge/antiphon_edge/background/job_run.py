"""One background response, run by whoever holds its job.

What was said of it before is read from its log: nothing, if this is the first attempt; otherwise the events, and the
token ids behind which the same generation goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from antiphon_core import events, response
from antiphon_core.errors import (
    AntiphonError,
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
    TranslatorUnavailable,
)
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import Precondition, Status
from antiphon_core.ports.translator import Batch, Final, Translator
from antiphon_edge.background import queueing
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.turns import leases
from antiphon_edge.turns.beginning import Beginnings
from antiphon_edge.turns.begun import Begun
from antiphon_edge.turns.ending import Endings, cancellation, failure, final_of
from antiphon_edge.turns.event_log import EventLogWriter
from antiphon_edge.turns.generation import Generation
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.told import Told, read

log = logging.getLogger(__name__)

# Any other error is the store's: then nothing can be written, and the job is tried again, or is somebody else's.
_OTHERS_CAN = (TranslatorUnavailable, EngineUnavailable, EngineTimeout, SessionLost)
_NOBODY_CAN = (EngineFault, InternalError, InvalidRequest, LimitExceeded, NotFound, SessionLocked)
PAUSES_S: Sequence[float] = (0.5, 1, 2, 4, 8, 15, 15, 15)
"""How long an attempt waits for a translator or an engine that cannot be reached, one time after the other."""
LOSSES_MAX = 3
"""How often an attempt may lose its engine in the middle of an answer: it may be the request that kills it."""


class JobRun:
    """Runs one response to its end. Cancelling `go` stops the model; `cancel` then writes the end, `leave` does not."""

    def __init__(
        self,
        store: FullStore,
        translator: Translator,
        beginnings: Beginnings,
        *,
        tenant: str,
        job: Job,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._translator = translator
        self._beginnings = beginnings
        self._meter = meter or Meter()
        self._endings = Endings(store)
        self._job = job
        self._begun = queueing.begun_of(tenant, job)
        self._told: Told | None = None
        self._log = self._writer(ids_before=0)
        self._losses = 0

    async def go(self) -> None:
        """Returns when the response has its end. Raises what keeps it from being written: the job is to be tried again,
        or is somebody else's."""
        told = await self._read()
        if told.is_over:
            return
        try:
            await self._open_log(told)
            await self._begin(told)
            await self._generate_patiently(told)
        except (ResponseNotFound, StatusMismatch):
            await self._let_go(told)
        except _OTHERS_CAN as error:
            if self._job.attempt < self._job.max_attempts and _can_go_on(told):
                raise
            await self._fail(told, error)
        except _NOBODY_CAN as error:
            await self._fail(told, error)

    async def cancel(self) -> None:
        """The end of a response that is not wanted any more."""
        told = self._told or await self._read()
        if told.is_over:
            return
        try:
            await self._open_log(told)
            await self._end(cancellation(told.fold))
        except (ResponseNotFound, StatusMismatch):  # it came to its end meanwhile, or was deleted
            await self._let_go(told)

    async def leave(self) -> None:
        """Nothing is written any more: somebody else goes on."""
        await self._log.close()

    async def _read(self) -> Told:
        """The log so far."""
        told = await read(self._store, self._begun.tenant, self._begun.response_id)
        self._log = self._writer(ids_before=len(told.token_ids))
        self._told = told
        return told

    def _writer(self, *, ids_before: int) -> EventLogWriter:
        return EventLogWriter(
            self._store, self._begun.tenant, self._job.id, under=self._begun.under_fence, ids_before=ids_before
        )

    async def _open_log(self, told: Told) -> None:
        """A log that was forgotten while the response waited begins anew. ResponseNotFound."""
        if told.fold.next_sequence:
            return
        record = await self._store.get(self._begun.tenant, self._begun.response_id)
        born: Object = loads(response.join(record.body, record.output_items))
        start = queueing.opening(record.id, born)
        await self._store.append_events(self._begun.tenant, start, fence=self._job.fence)
        told.fold.feed(first_sequence=0, count=start.count, frames=start.frames)

    async def _begin(self, told: Told) -> None:
        """Tells that somebody works on it, unless an earlier attempt came so far. StatusMismatch: it is over."""
        begun = self._begun
        if told.fold.next_sequence == queueing.OPENING_EVENTS:
            born = told.fold.response() | {"status": Status.IN_PROGRESS.value}
            event: Object = {"type": events.IN_PROGRESS, "sequence_number": told.fold.next_sequence, "response": born}
            batch = Batch(told.fold.next_sequence, 1, events.encode(event))
            told.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
            self._log.put(batch)
        queued = Precondition(statuses=frozenset({Status.QUEUED}), fence=self._job.fence)
        try:
            await self._store.update_status(begun.tenant, begun.response_id, Status.IN_PROGRESS, precondition=queued)
        except StatusMismatch:
            if (await self._store.get(begun.tenant, begun.response_id)).status is not Status.IN_PROGRESS:
                raise

    async def _generate_patiently(self, told: Told) -> None:
        """Generates to the end, through times in which nobody can be asked to. Raises what lasts longer."""
        for pause_s in PAUSES_S:
            try:
                await self._generate(told)
                return
            except _OTHERS_CAN as error:
                if not _can_go_on(told):
                    raise
                log.warning("%s waits %g s: %s", self._begun.response_id, pause_s, error.message)
            await asyncio.sleep(pause_s)
        await self._generate(told)

    async def _generate(self, told: Told) -> None:
        self._begun = begun = await self._in_its_session()
        if not _can_go_on(told):
            raise EngineFault("The response was interrupted, and its engine cannot go on in the middle of a text.")
        sealed = sealed_items.changes_of(begun, self._beginnings.sealer, told=told.fold.response().get("output", ()))
        generation = Generation(self._translator, begun.turn, fold=told.fold, token_ids=told.token_ids, change=sealed)
        try:
            async with (
                leases.kept(self._store, begun.tenant, begun.lease) as lease,
                aclosing(lease.while_kept(generation.batches())) as batches,
            ):
                await self._write(generation, batches)
        except SessionLost:
            self._begun = queueing.begun_of(begun.tenant, self._job)
            raise
        finally:
            told.token_ids = generation.token_ids

    async def _write(self, generation: Generation, batches: AsyncGenerator[Batch, None]) -> None:
        """Everything into the log; the end with the record. Raises a failure that need not be the end."""
        begins_at = generation.fold.next_sequence
        async for batch in batches:
            if batch.final is None:
                self._log.put(batch)
                continue
            if batch.final.status is Status.FAILED and generation.can_go_on():
                has_said = generation.fold.next_sequence > begins_at
                self._raise_what_may_pass(batch.final, has_said=has_said)
            await self._log.flush()
            await self._endings.commit(self._begun, batch, batch.final)
            self._meter.ended(self._begun.tenant, batch.final.body)  # once: who commits in vain is not the last

    def _raise_what_may_pass(self, failed: Final, *, has_said: bool) -> None:
        """An engine that is away is waited for. One that broke down over this response gets only so many chances."""
        error = response.error_of(loads(failed.body))
        if isinstance(error, _OTHERS_CAN):
            self._losses += has_said or isinstance(error, EngineTimeout)
            if self._losses <= LOSSES_MAX:
                raise error

    async def _in_its_session(self) -> Begun:
        """The turn as it was accepted, with the lease of its session. SessionLocked: others have it, or had it."""
        begun = await self._beginnings.renew(self._begun)
        if begun.parent_id != self._begun.parent_id:
            await self._beginnings.give_up(begun)
            raise SessionLocked("The conversation went on while the response was waiting.", field="conversation")
        return replace(begun, turn=self._begun.turn)

    async def _fail(self, told: Told, error: AntiphonError) -> None:
        log.warning("response %s was cut off: %s", self._begun.response_id, error)
        try:
            await self._end(failure(told.fold, error))
        except StatusMismatch:
            await self._let_go(told)

    async def _end(self, batch: Batch) -> None:
        """Writes an end of our own making: in its session, if the turn still has its place there."""
        await self._log.flush()
        if self._begun.lease is not None and self._begun.fence is None:
            with suppress(SessionLocked, NotFound, LimitExceeded):
                self._begun = await self._in_its_session()
        await self._endings.commit(self._begun, batch, final_of(batch))
        if self._told is not None:
            self._meter.broke_off(self._begun.tenant, len(self._told.token_ids))

    async def _let_go(self, told: Told) -> None:
        """Nobody waits for a record any more: others ended it, or deleted it. Who follows it still has to be told."""
        if not told.fold.next_sequence:
            return
        with suppress(AntiphonError):
            await self._log.flush()
            batch = cancellation(told.fold)
            end = EventAppend(self._begun.response_id, batch.first_sequence, batch.count, batch.frames, terminal=True)
            await self._store.append_events(self._begun.tenant, end, fence=self._job.fence)


def _can_go_on(told: Told) -> bool:
    """Whether the same generation can go on behind it: nothing of an answer was told, or its ids are known."""
    return told.fold.next_sequence <= queueing.OPENING_EVENTS + 1 or bool(told.token_ids)
