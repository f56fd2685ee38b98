"""Background responses for their callers: created, asked after, followed, cancelled. A worker runs them (worker.py).

A response is stored as queued before its caller hears of it, its log begins with `response.created` and
`response.queued`, and its job holds the whole turn. Whoever asks after it later, on whichever replica, also ends what
nobody else will: a response whose job is over and left it unfinished, or that no worker can find.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

from antiphon_core import events, response
from antiphon_core.clock import Clock
from antiphon_core.errors import (
    AntiphonError,
    Conflict,
    InternalError,
    InvalidRequest,
    JobNotFound,
    LogNotFound,
    ResponseNotFound,
)
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import UNFINISHED, LogEnd, Precondition, Record, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Translator
from antiphon_core.request import CreateRequest
from antiphon_edge.background import queueing
from antiphon_edge.background.following import Followings
from antiphon_edge.turns import lost_parents
from antiphon_edge.turns.beginning import Beginnings
from antiphon_edge.turns.begun import Begun, Repeated
from antiphon_edge.turns.ending import cancellation, failure, final_of
from antiphon_edge.turns.first_requests import FirstRequest

log = logging.getLogger(__name__)

CANCEL_PATIENCE_S = 3.0
"""How long a caller who cancels waits for the worker to have stopped."""
LOOK_AGAIN_S = 0.05
WATCH_S = 5.0
"""How often whoever follows a response looks whether anybody still works on it."""
BROKEN_OFF_MS = 60_000
"""A queued response without a job is one whose creation broke off, once it is so old."""
TICKET_LOST_MS = 10_000
"""A job that waits for so long gets its ticket again, in case its creation broke off before."""

_NEXT_STATE = {JobState.FAILED: Status.FAILED, JobState.CANCELLED: Status.CANCELLED}


class Background:
    """Responses that nobody waits for. One instance serves all requests of a process."""

    def __init__(self, store: FullStore, translator: Translator, beginnings: Beginnings, *, clock: Clock) -> None:
        self._store = store
        self._translator = translator
        self._beginnings = beginnings
        self._followings = Followings(store)
        self._clock = clock

    async def create(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> Record:
        """A new response, queued. Raises what is wrong with the request, also what only the translator sees.

        A caller that goes away changes nothing: what was begun is queued, or taken back, to the end."""
        begun = await self._begin(tenant, request, session_id, key)
        if isinstance(begun, Record):
            return begun
        return await self._beginnings.tidying.finished(self._accept(begun))

    async def current(self, tenant: str, response_id: str) -> Record:
        """A stored response as it is now. ResponseNotFound."""
        record = await self._store.get(tenant, response_id)
        if not _is_running(record):
            return record
        return await self._settled(tenant, record)

    async def stream(self, tenant: str, record: Record, *, after: int | None = None) -> AsyncGenerator[Batch, None]:
        """The events of a stored response with a number higher than `after`, to its end: as they were sent, or all of
        it told again when they are not kept (any more). InvalidRequest: they are not kept, and `after` is one of them.
        """
        if record.status in UNFINISHED:
            following = self._followings.stream(tenant, record.id, after=after)
        else:
            following = self._followings.ended(tenant, record, after=after)
        told = False
        try:
            async with self._watched(tenant, record), aclosing(following) as batches:
                async for batch in batches:
                    told = True
                    yield batch
        except LogNotFound:
            record = await self._store.get(tenant, record.id)
            if told or record.status in UNFINISHED:
                raise
            _require_from_the_start(after)
            async for batch in self._followings.told_again(record):
                yield batch

    async def cancel(self, tenant: str, response_id: str) -> Record:
        """Has a background response stopped, and waits for that. One that has ended stays as it is.

        InvalidRequest: it is not a background response. ResponseNotFound."""
        record = await self.current(tenant, response_id)
        if not _is_background(record):
            raise synchronous()
        until = self._clock.monotonic() + CANCEL_PATIENCE_S
        is_asked = False
        while record.status in UNFINISHED and self._clock.monotonic() < until:
            is_asked = is_asked or await self._ask_for_the_end(tenant, response_id)
            record = await self.current(tenant, response_id)
            if record.status in UNFINISHED:
                await asyncio.sleep(LOOK_AGAIN_S)
        return record

    async def delete(self, tenant: str, response_id: str) -> None:
        """Removes a response; one that still runs is stopped before, so that its followers hear of an end.

        ResponseNotFound."""
        if _is_running(await self._store.get(tenant, response_id)):
            await self.cancel(tenant, response_id)
        await self._store.delete(tenant, response_id)

    async def _begin(
        self, tenant: str, request: CreateRequest, session_id: str | None, key: str | None
    ) -> Begun | Record:
        """A new turn, or the response of the first request with this key, once there is one."""
        first = FirstRequest(self._store)
        while True:
            begun = await self._beginnings.begin(tenant, request, session_id=session_id, key=key)
            if not isinstance(begun, Repeated):
                return begun
            if begun.record is not None:
                return begun.record
            await first.came_to_nothing(begun)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _accept(self, begun: Begun) -> Record:
        """Checks a turn, and queues it; or leaves nothing behind."""
        try:
            await self._translator.count_tokens(begun.turn)
            return await self._queue(begun)
        except BaseException as error:
            log.info("background response %s was not accepted: %s", begun.response_id, error)
            with suppress(AntiphonError):  # then time gives it back
                await self._beginnings.give_up(begun)
            raise

    async def _queue(self, begun: Begun) -> Record:
        parameters: Object = loads(begun.turn.request)
        born = response.skeleton(parameters, response_id=begun.response_id, created_at=begun.turn.created_at)
        queued = born | {"status": Status.QUEUED.value}
        body, output_items = response.split(queued)

        async def commit(turn: Begun) -> None:
            record = turn.record(Status.QUEUED, body, output_items)
            new = Precondition(version=0, fence=turn.fence)
            await self._store.commit_turn(turn.tenant, TurnCommit(record, idempotency_key=turn.key, precondition=new))

        try:
            begun = await lost_parents.committed(begun, commit)
            await self._store.append_events(begun.tenant, queueing.opening(begun.response_id, queued))
            await queueing.enqueue(self._store, begun)
        except BaseException:
            with suppress(AntiphonError):  # without a job it will be told as failed
                await self._store.delete(begun.tenant, begun.response_id)
            raise
        return begun.record(Status.QUEUED, body, output_items)

    async def _ask_for_the_end(self, tenant: str, response_id: str) -> bool:
        """Whether there was a job to be ended: it comes a moment after its response."""
        with suppress(JobNotFound):
            await self._store.cancel_job(tenant, response_id)
            return True
        return False

    async def _settled(self, tenant: str, record: Record) -> Record:
        """An unfinished response, ended if its job is over."""
        age_ms = self._clock.now_ms() - record.created_at_ms
        try:
            job = await self._store.describe_job(tenant, record.id)
            status, reason = _NEXT_STATE.get(job.state), job.reason
            if job.state is JobState.QUEUED and age_ms > TICKET_LOST_MS:
                await queueing.hand_in(self._store, tenant, record.id)
        except JobNotFound:
            status, reason = (Status.FAILED if age_ms > BROKEN_OFF_MS else None), "it was never queued"
        if status is None:
            return record
        await self._end(tenant, record, status, reason)
        return await self._store.get(tenant, record.id)

    async def _end(self, tenant: str, record: Record, status: Status, reason: str) -> None:
        fold = await self._told(tenant, record.id)
        is_logged = fold.next_sequence > 0
        if not is_logged:  # its creation broke off before its log began, or the log is forgotten
            born: Object = loads(response.join(record.body, record.output_items))
            fold.feed(first_sequence=0, count=1, frames=events.encode({"type": events.CREATED, "response": born}))
        if status is Status.CANCELLED:
            batch = cancellation(fold)
        else:
            batch = failure(fold, InternalError(f"The response could not be finished: {reason}."))
        final = final_of(batch)
        ended = replace(record, status=final.status, body=final.body, output_items=final.output_items)
        commit = TurnCommit(
            ended,
            precondition=Precondition(version=record.version, statuses=UNFINISHED),
            log_end=LogEnd(batch.first_sequence, batch.frames) if is_logged else None,
        )
        with suppress(Conflict):  # somebody else was faster
            await self._store.commit_turn(tenant, commit)
            await self._free_session(tenant, record)

    async def _free_session(self, tenant: str, record: Record) -> None:
        """Gives back the lease that a response had, and will not use."""
        if record.session_id is None:
            return
        lease = (await self._store.describe_session(tenant, record.session_id)).lease
        if lease is not None and lease.holder == record.id:
            await self._store.release_session(tenant, lease.fence)

    async def _told(self, tenant: str, response_id: str) -> Fold:
        """What was said of a response so far."""
        fold = Fold()
        with suppress(LogNotFound):
            async for batch in self._store.read_events(tenant, response_id):
                fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        return fold

    @asynccontextmanager
    async def _watched(self, tenant: str, record: Record) -> AsyncIterator[None]:
        """Sees to it that a response which is followed comes to its end, also when nobody works on it any more."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(WATCH_S)
                try:
                    await self.current(tenant, record.id)
                except ResponseNotFound:
                    return
                except AntiphonError as error:
                    log.warning("could not look after response %s: %s", record.id, error.message)

        if not _is_running(record):
            yield
            return
        watching = asyncio.create_task(watch(), name=f"watch over {record.id}")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])


def _require_from_the_start(after: int | None) -> None:
    """What was told once has numbers of its own: beside those that a client saw, they would skip text in silence."""
    if after is not None:
        raise InvalidRequest(
            "Unsupported parameter: 'starting_after'. The events of this response are not kept, so their numbers mean "
            "nothing any more. Ask without 'starting_after': the whole response is told again.",
            field="starting_after",
            code="unsupported_parameter",
        )


def synchronous() -> InvalidRequest:
    """What is told to who cancels a response that has its caller: hanging up is what stops that."""
    return InvalidRequest("Cannot cancel a synchronous response.")


def _is_running(record: Record) -> bool:
    """Whether a worker has it, or should have."""
    return record.status in UNFINISHED and _is_background(record)


def _is_background(record: Record) -> bool:
    return loads(record.body).get("background") is True
