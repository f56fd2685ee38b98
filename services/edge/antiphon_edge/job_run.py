"""One background response, run by whoever holds its job.

What was said of it before is read from its log: nothing, if this is the first attempt; otherwise the events, and the
token ids behind which the same generation goes on.
"""

from __future__ import annotations

import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from antiphon_core import events
from antiphon_core.errors import (
    AntiphonError,
    EngineFault,
    EngineTimeout,
    EngineUnavailable,
    InternalError,
    InvalidRequest,
    LogNotFound,
    NotFound,
    SessionLocked,
    StatusMismatch,
    TranslatorUnavailable,
)
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import Precondition, Status
from antiphon_core.ports.translator import Batch, Translator
from antiphon_edge import leases, queueing, sealed_items
from antiphon_edge.beginning import Beginnings
from antiphon_edge.begun import Begun
from antiphon_edge.ending import Endings, cancellation, failure, final_of
from antiphon_edge.event_log import EventLogWriter
from antiphon_edge.generation import Generation

log = logging.getLogger(__name__)

# Any other error is the store's: then nothing can be written, and the job is tried again, or is somebody else's.
_OTHERS_CAN = (TranslatorUnavailable, EngineUnavailable, EngineTimeout)
_NOBODY_CAN = (EngineFault, InternalError, InvalidRequest, NotFound, SessionLocked)
QUEUED_EVENTS = 2  # created and queued; in_progress comes from whoever runs it first


@dataclass
class Told:
    """What a response's log says so far."""

    fold: Fold = field(default_factory=Fold)
    token_ids: list[int] = field(default_factory=list)
    is_over: bool = False


class JobRun:
    """Runs one response to its end. Cancelling `go` stops the model; `cancel` then writes the end, `leave` does not."""

    def __init__(
        self, store: FullStore, translator: Translator, beginnings: Beginnings, *, tenant: str, job: Job
    ) -> None:
        self._store = store
        self._translator = translator
        self._beginnings = beginnings
        self._endings = Endings(store)
        self._job = job
        self._begun = queueing.begun_of(tenant, job)
        self._told = Told()
        self._log: EventLogWriter | None = None

    async def go(self) -> None:
        """Returns when the response has its end. Raises what keeps it from being written: the job is to be tried again,
        or is somebody else's."""
        self._told = await self._read()
        if self._told.is_over:
            return
        self._log = EventLogWriter(
            self._store,
            self._begun.tenant,
            self._begun.response_id,
            fence=self._job.fence,
            ids_before=len(self._told.token_ids),
        )
        if self._told.fold.next_sequence == QUEUED_EVENTS:
            await self._begin()
        try:
            await self._generate()
        except _OTHERS_CAN as error:
            if self._job.attempt < self._job.max_attempts:
                raise
            await self._fail(error)
        except _NOBODY_CAN as error:
            await self._fail(error)

    async def cancel(self) -> None:
        """The end of a response that is not wanted any more."""
        if self._told.is_over:
            return
        await self._flush()
        batch = cancellation(self._told.fold)
        await self._endings.commit(self._begun, batch, final_of(batch))

    async def leave(self) -> None:
        """Nothing is written any more: somebody else goes on."""
        if self._log is not None:
            await self._log.close()

    async def _generate(self) -> None:
        self._begun = begun = await self._in_its_session()
        told = self._told
        if told.fold.next_sequence > QUEUED_EVENTS + 1 and not told.token_ids:
            raise EngineFault("The response was interrupted, and its engine cannot go on in the middle of a text.")
        change = sealed_items.changes_of(begun, self._beginnings.sealer)
        generation = Generation(self._translator, begun.turn, fold=told.fold, token_ids=told.token_ids, change=change)
        async with leases.kept(self._store, begun.tenant, begun.lease), aclosing(generation.batches()) as batches:
            async for batch in batches:
                if batch.final is None:
                    self._put(batch)
                    continue
                await self._flush()
                await self._endings.commit(begun, batch, batch.final)

    async def _in_its_session(self) -> Begun:
        """The turn, with the lease of its session. SessionLocked: others have it, or had it meanwhile."""
        begun = await self._beginnings.renew(self._begun)
        if begun.lease is not None and begun.parent_id != self._begun.parent_id:
            raise SessionLocked("The conversation went on while the response was waiting.", field="conversation")
        return begun

    async def _fail(self, error: AntiphonError) -> None:
        log.warning("response %s was cut off: %s", self._begun.response_id, error)
        await self._flush()
        batch = failure(self._told.fold, error)
        await self._endings.commit(self._begun, batch, final_of(batch))

    async def _begin(self) -> None:
        """Tells that somebody works on it."""
        begun = self._begun
        born = self._told.fold.response() | {"status": Status.IN_PROGRESS.value}
        event: Object = {"type": events.IN_PROGRESS, "sequence_number": QUEUED_EVENTS, "response": born}
        batch = Batch(QUEUED_EVENTS, 1, events.encode(event))
        self._told.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self._put(batch)
        queued = Precondition(statuses=frozenset({Status.QUEUED}), fence=self._job.fence)
        with suppress(StatusMismatch):  # an earlier attempt came so far
            await self._store.update_status(begun.tenant, begun.response_id, Status.IN_PROGRESS, precondition=queued)

    async def _read(self) -> Told:
        """The log so far."""
        told = Told()
        with suppress(LogNotFound):
            stream = self._store.read_events(self._begun.tenant, self._begun.response_id)
            async with aclosing(stream) as batches:
                async for batch in batches:
                    told.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                    told.is_over = batch.terminal
                    for checkpoint in batch.checkpoints:
                        told.token_ids[checkpoint.offset :] = checkpoint.token_ids
        return told

    def _put(self, batch: Batch) -> None:
        if self._log is not None:
            self._log.put(batch)

    async def _flush(self) -> None:
        if self._log is not None:
            await self._log.flush()
