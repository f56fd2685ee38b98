"""Background responses for their callers: created, asked after, cancelled. A worker runs them (worker.py).

A response is stored as queued before its caller hears of it, its log begins with `response.created` and
`response.queued`, and its job holds the whole turn. Whoever asks after it later, on whichever replica, also ends what
nobody else will: a response whose job is over and left it unfinished.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from antiphon_core import events, response
from antiphon_core.clock import Clock
from antiphon_core.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    JobNotFound,
    LogNotFound,
)
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import LogEnd, Precondition, Record, Status, TurnCommit
from antiphon_core.ports.translator import Translator
from antiphon_core.request import CreateRequest
from antiphon_edge import queueing
from antiphon_edge.beginning import Beginnings
from antiphon_edge.begun import Begun, Repeated
from antiphon_edge.ending import cancellation, failure, final_of

CANCEL_PATIENCE_S = 3.0
"""How long a caller who cancels waits for the worker to have stopped."""
LOOK_AGAIN_S = 0.05
UNCLAIMED_MS = 60_000
"""A queued response without a job is one whose creation broke off, once it is so old."""

_NEXT_STATE = {JobState.FAILED: Status.FAILED, JobState.CANCELLED: Status.CANCELLED}


class Background:
    """Responses that nobody waits for. One instance serves all requests of a process."""

    def __init__(self, store: FullStore, translator: Translator, beginnings: Beginnings, *, clock: Clock) -> None:
        self._store = store
        self._translator = translator
        self._beginnings = beginnings
        self._clock = clock

    async def create(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> Record:
        """A new response, queued. Raises what is wrong with the request, also what only the translator sees."""
        begun = await self._beginnings.begin(tenant, request, session_id=session_id, key=key)
        if isinstance(begun, Repeated):
            return begun.record or await self._store.get(tenant, begun.response_id)
        try:
            await self._translator.count_tokens(begun.turn)
            return await self._queue(begun)
        except BaseException:
            await asyncio.shield(self._beginnings.give_up(begun))
            raise

    async def current(self, tenant: str, response_id: str) -> Record:
        """A stored response as it is now. ResponseNotFound."""
        record = await self._store.get(tenant, response_id)
        if record.status not in queueing.UNFINISHED:
            return record
        return await self._settled(tenant, record)

    async def cancel(self, tenant: str, response_id: str) -> Record:
        """Has a background response stopped, and waits for that. One that has ended stays as it is.

        InvalidRequest: it is not a background response. ResponseNotFound."""
        record = await self.current(tenant, response_id)
        if not loads(record.body)["background"]:
            raise InvalidRequest("Cannot cancel a synchronous response.")
        if record.status not in queueing.UNFINISHED:
            return record
        await self._store.cancel_job(tenant, response_id)
        until = self._clock.monotonic() + CANCEL_PATIENCE_S
        while record.status in queueing.UNFINISHED and self._clock.monotonic() < until:
            await asyncio.sleep(LOOK_AGAIN_S)
            record = await self.current(tenant, response_id)
        return record

    async def _queue(self, begun: Begun) -> Record:
        parameters: Object = loads(begun.turn.request)
        born = response.skeleton(parameters, response_id=begun.response_id, created_at=begun.turn.created_at)
        queued = born | {"status": Status.QUEUED.value}
        body, output_items = response.split(queued)
        record = begun.record(Status.QUEUED, body, output_items)
        await self._store.put(begun.tenant, record, precondition=Precondition(version=0), idempotency_key=begun.key)
        await self._store.append_events(begun.tenant, opening(begun.response_id, queued))
        await queueing.enqueue(self._store, begun)
        return record

    async def _settled(self, tenant: str, record: Record) -> Record:
        """An unfinished response, ended if its job is over."""
        try:
            job = await self._store.describe_job(tenant, record.id)
            status, reason = _NEXT_STATE.get(job.state), job.reason
        except JobNotFound:
            is_old = self._clock.now_ms() - record.created_at_ms > UNCLAIMED_MS
            status, reason = (Status.FAILED if is_old else None), "it was never queued"
        if status is None:
            return record
        await self._end(tenant, record, status, reason)
        return await self._store.get(tenant, record.id)

    async def _end(self, tenant: str, record: Record, status: Status, reason: str) -> None:
        fold = await self._told(tenant, record.id)
        if not fold.next_sequence:  # its creation broke off before its log began
            born: Object = loads(response.join(record.body, record.output_items))
            fold.feed(first_sequence=0, count=1, frames=events.encode({"type": events.CREATED, "response": born}))
            logged = False
        else:
            logged = True
        if status is Status.CANCELLED:
            batch = cancellation(fold)
        else:
            batch = failure(fold, InternalError(f"The response could not be finished: {reason}."))
        final = final_of(batch)
        ended = replace(record, status=final.status, body=final.body, output_items=final.output_items)
        commit = TurnCommit(
            ended,
            precondition=Precondition(version=record.version, statuses=queueing.UNFINISHED),
            log_end=LogEnd(batch.first_sequence, batch.frames) if logged else None,
        )
        with suppress(Conflict):  # somebody else was faster
            await self._store.commit_turn(tenant, commit)

    async def _told(self, tenant: str, response_id: str) -> Fold:
        """What was said of a response so far."""
        fold = Fold()
        with suppress(LogNotFound):
            async for batch in self._store.read_events(tenant, response_id):
                fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        return fold


def opening(response_id: str, queued: Object) -> EventAppend:
    """The first events of a background response."""
    frames = [
        events.encode({"type": event_type, "sequence_number": number, "response": queued})
        for number, event_type in enumerate((events.CREATED, events.QUEUED))
    ]
    return EventAppend(response_id, 0, len(frames), b"".join(frames))
