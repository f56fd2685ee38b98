"""Background responses for their callers: created, read, followed, cancelled, deleted. A worker runs them (worker.py).

A response is stored as queued before its caller gets it, its log begins with `response.created` and `response.queued`,
and its job holds the whole turn: the store writes all three in one transaction. A response whose job is over and left
it unfinished is ended by the next request that reads it, on any replica.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from antiphon_core import damage, events, offload, response
from antiphon_core.errors import (
    Conflict,
    DataDamaged,
    InternalError,
    InvalidRequest,
    JobNotFound,
    LogNotFound,
    ResponseNotFound,
    for_log,
)
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import UNFINISHED, LogFrames, Precondition, Record, Status, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import metrics
from antiphon_edge import stored_content
from antiphon_edge.background.background_policy import job_of, opening
from antiphon_edge.quotas.response_readers import ResponseReaders
from antiphon_edge.turns import event_logs, turn_approvals
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest, size_errors_translated
from antiphon_edge.turns.durable_turns import StaleKey, Step, next_step
from antiphon_edge.turns.event_logs import LogFollower
from antiphon_edge.turns.generation import LogState
from antiphon_edge.turns.turn_finisher import REJECTED, cancellation, commit_or_as_root, failure, final_of, unstorable
from antiphon_edge.turns.turn_parts import TurnParts
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)

_BACKGROUND = re.compile(rb'"background"\s*:\s*true')


class Background:
    """Creates background responses, and serves stored responses. One instance serves all requests of a process."""

    def __init__(
        self,
        parts: TurnParts,
        store: FullStore,
        *,
        readers: ResponseReaders | None = None,
    ) -> None:
        """`store`: the fail-fast store for callers, which wait; the other one for a worker."""
        self._readers = readers or ResponseReaders()
        self._store = store
        self._translator = parts.translator
        self._starter = parts.starter
        self._cleanup = parts.cleanup
        self._follower = LogFollower(store)
        self._timing = parts.timing

    async def create(
        self, tenant: str, request: CreateRequest, *, session_id: str | None = None, key: str | None = None
    ) -> Record:
        """Queues a new response, and returns its record. Raises if the request is wrong; the translator checks it, too.

        If the caller is cancelled, a response that was begun is still queued, or taken back after an error."""
        begun = await self._begin(tenant, request, session_id, key)
        if isinstance(begun, Record):
            return begun
        return await self._cleanup.finish(self._accept(begun))

    async def current(self, tenant: str, response_id: str) -> Record:
        """Reads a stored response, and ends it first if its job left it unfinished. Raises ResponseNotFound."""
        record = await self._store.get(tenant, response_id)
        if not _is_running(record):
            return record
        return await self._end_if_over(tenant, record)

    async def stream(self, tenant: str, record: Record, *, after: int | None = None) -> AsyncGenerator[Batch, None]:
        """Yields the events of a stored response with a number higher than `after`, to the terminal one. If the events
        are not stored, or not any more, yields a replay made from the record.

        Raises:
            InvalidRequest: a replay cannot begin after a number.
            RequestRateExceeded: too many read this response.
        """
        with self._readers.one_more(tenant, record.id):
            async with aclosing(self._stream(tenant, record, after)) as batches:
                async for batch in batches:
                    yield batch

    async def _stream(self, tenant: str, record: Record, after: int | None) -> AsyncGenerator[Batch, None]:
        if record.status in UNFINISHED:
            following = self._follow(tenant, record.id, after)
        else:
            following = self._follower.resume(tenant, record, after=after)
        next_sequence = None
        try:
            async with aclosing(following) as batches:
                async for batch in batches:
                    next_sequence = batch.first_sequence + batch.count
                    yield batch
                    if batch.final is not None:
                        return
            if next_sequence is None:  # the log has no event behind `after`
                return
        except LogNotFound:
            pass
        record = await self._store.get(tenant, record.id)
        if next_sequence is not None:  # the log expired meanwhile
            yield await self._follower.end_of(record, next_sequence)
            return
        _require_from_the_start(after)
        async for batch in self._follower.replay(record):
            yield batch

    async def _follow(self, tenant: str, response_id: str, after: int | None = None) -> AsyncGenerator[Batch, None]:
        """Yields the events of a response as its log grows. Ends the response when its job is over."""

        async def look() -> bool:
            try:
                record = await self.current(tenant, response_id)
                require_followable(record)
                return record.status in UNFINISHED
            except ResponseNotFound:  # it was deleted, and the worker that has its job ends the log
                return (await next_step(self._store, Delivery.BACKGROUND, tenant, response_id))[0] is Step.WAIT

        following = self._follower.follow(
            tenant, response_id, look, after=after, silence_s=self._timing.watch_s, retry=self._timing.follow_retry
        )
        async with aclosing(following) as batches:
            async for batch in batches:
                after = batch.first_sequence + batch.count - 1
                yield batch
                if batch.final is not None:
                    return
        async with aclosing(self._follower.rest(tenant, response_id, after=after)) as batches:
            async for batch in batches:
                yield batch

    async def cancel(self, tenant: str, response_id: str) -> Record:
        """Cancels a background response, and waits until it has ended, for `cancel_timeout_s` at most. A response that
        has ended stays as it is.

        InvalidRequest: it is not a background response. ResponseNotFound."""
        record = await self.current(tenant, response_id)
        if not is_background(record):
            raise synchronous()
        if record.status not in UNFINISHED:
            return record
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.cancel_timeout_s):
                with suppress(JobNotFound):  # then no worker has it
                    await self._store.cancel_job(tenant, response_id)
                record = await self.current(tenant, response_id)  # ends a response that no worker has
                if record.status in UNFINISHED:
                    async with aclosing(self._follow(tenant, response_id)) as batches:
                        async for _ in batches:
                            pass
        return await self.current(tenant, response_id)

    async def delete(self, tenant: str, response_id: str) -> None:
        """Deletes a response. A background response that still runs is cancelled first, so that its followers get a
        terminal event. Raises ResponseNotFound."""
        if _is_running(await self._store.get(tenant, response_id)):
            await self.cancel(tenant, response_id)
        await self._store.delete(tenant, response_id)

    async def _begin(
        self, tenant: str, request: CreateRequest, session_id: str | None, key: str | None
    ) -> AcceptedTurn | Record:
        """Accepts a new turn, or waits for the response of an earlier request with this key."""
        stale_key = StaleKey(self._store, stale_after_s=self._timing.stale_key_s)
        for pause_s in self._timing.look_again.pauses_s():
            begun = await self._starter.begin(tenant, request, session_id=session_id, key=key)
            if not isinstance(begun, RepeatedRequest):
                return begun
            if begun.record is not None:
                return begun.record
            await stale_key.release_if_stale(begun)
            await asyncio.sleep(pause_s)
        raise AssertionError("pauses have no end")

    async def _accept(self, accepted: AcceptedTurn) -> Record:
        """Checks a turn and queues it. After an error, its session lease and its key are given back."""
        try:
            await self._translator.check(accepted.turn)
            return await self._queue(accepted)
        except BaseException as error:
            log.info("background response %s was not accepted: %s", accepted.response_id, for_log(error))
            if_it_fails = f"background response {accepted.response_id} keeps its lease and key until they expire"
            await self._cleanup.attempt(self._starter.give_up(accepted), if_it_fails)
            raise

    async def _queue(self, accepted: AcceptedTurn) -> Record:
        new = await offload.run(partial(_new_response, accepted), size_bytes=len(accepted.turn.request))
        body, output_items = new.body, new.output_items

        async def commit(turn: AcceptedTurn) -> None:
            record = turn.record(Status.QUEUED, body, output_items)
            queued = TurnCommit(
                record,
                idempotency_key=turn.key,
                precondition=Precondition(version=0, fence=turn.fence),
                log_frames=LogFrames(0, new.opening.frames),
                job=job_of(turn),
                holds=[each.id for each in turn.consumes],  # they would be free again while it waits for a worker
            )
            with size_errors_translated():
                await self._store.commit_turn(turn.tenant, queued)

        try:
            accepted = await commit_or_as_root(accepted, commit)
        except BaseException:  # the commit may have happened, but the caller gets the error
            if_it_fails = (
                f"background response {accepted.response_id} could not be taken back: it may run unless deleted"
            )
            await self._cleanup.attempt(self._take_back(accepted), if_it_fails)
            raise
        metrics.JOBS_ENQUEUED.of().add()
        return accepted.record(Status.QUEUED, body, output_items)

    async def _take_back(self, accepted: AcceptedTurn) -> None:
        """Cancels the job of a response and deletes the response, if they exist."""
        try:
            with suppress(JobNotFound):
                await self._store.cancel_job(accepted.tenant, accepted.response_id)
        finally:
            with suppress(ResponseNotFound):
                await self._store.delete(accepted.tenant, accepted.response_id)

    async def _end_if_over(self, tenant: str, record: Record) -> Record:
        """Ends an unfinished response if its job is over, and returns its record."""
        step, job = await next_step(self._store, Delivery.BACKGROUND, tenant, record.id)
        if step in (Step.END_AS_FAILED, Step.END_AS_CANCELLED):
            await self._end(tenant, record, step, job.reason if job is not None else "its job no longer exists")
            return await self._store.get(tenant, record.id)
        return record

    async def _end(self, tenant: str, record: Record, step: Step, reason: str) -> None:
        state, is_logged = await self._so_far(tenant, record)
        fold = state.fold
        if step is Step.END_AS_CANCELLED:
            batch = await cancellation(fold)
        else:
            batch = await failure(fold, InternalError(f"The response could not be finished: {reason}."))
        with suppress(Conflict):  # another process has ended it
            try:
                await self._store.commit_turn(tenant, _end_commit(record, batch, is_logged=is_logged))
            except REJECTED:
                rejected = await unstorable(fold)
                await self._store.commit_turn(tenant, _end_commit(record, rejected, is_logged=is_logged))
            await self._free_session(tenant, record)
            await turn_approvals.give_back_of(self._store, tenant, record)

    async def _so_far(self, tenant: str, record: Record) -> tuple[LogState, bool]:
        """The response by its event log, or by its record if the log has expired or is damaged; and whether there is a
        log to end. DataDamaged: neither can be read."""
        state = LogState()
        with suppress(DataDamaged):
            state = await event_logs.read_unparsed(self._store, tenant, record.id)
            await event_logs.parse(state, record.id)
            if state.next_sequence:
                return state, True
        fold = Fold()
        created = stored_content.response_of(record)
        with damage.reading(f"response '{record.id}'"):
            opening = events.encode({"type": events.CREATED, "response": created})
            fold.feed(first_sequence=max(0, state.next_sequence - 1), count=1, frames=opening)
            fold.response()
        return LogState(fold), state.next_sequence > 0

    async def _free_session(self, tenant: str, record: Record) -> None:
        """Releases the lease of a session if this response still has it."""
        if record.session_id is None:
            return
        lease = (await self._store.describe_session(tenant, record.session_id)).lease
        if lease is not None and lease.holder == record.id:
            await self._store.release_session(tenant, lease.fence)


class _NewResponse(NamedTuple):
    """A queued response as it is stored, and the first events of its log."""

    body: bytes
    output_items: bytes
    opening: EventAppend


def _new_response(accepted: AcceptedTurn) -> _NewResponse:
    parameters: Object = loads(accepted.turn.request)
    created = response.skeleton(parameters, response_id=accepted.response_id, created_at=accepted.turn.created_at)
    queued = created | {"status": Status.QUEUED.value}
    return _NewResponse(*response.split(queued), opening(accepted.response_id, queued))


def _end_commit(record: Record, batch: Batch, *, is_logged: bool) -> TurnCommit:
    """The write that ends an unfinished record, and its event log if there is one."""
    final = final_of(batch)
    return TurnCommit(
        replace(record, status=final.status, body=final.body, output_items=final.output_items),
        precondition=Precondition(version=record.version, statuses=UNFINISHED),
        log_frames=LogFrames(batch.first_sequence, batch.frames) if is_logged else None,
    )


def _require_from_the_start(after: int | None) -> None:
    """Raises InvalidRequest if `after` is given: a replay numbers its events anew, so resuming it would skip text."""
    if after is not None:
        raise InvalidRequest(
            "Unsupported parameter: 'starting_after'. The events of this response are not stored, so its stream cannot "
            "be resumed. Without 'starting_after' the whole response is sent again.",
            field="starting_after",
            code="unsupported_parameter",
        )


def synchronous() -> InvalidRequest:
    """The error for cancelling a response that is not a background response. Its client stops it by disconnecting."""
    return InvalidRequest("Cannot cancel a synchronous response.")


def _is_running(record: Record) -> bool:
    """Whether a background response is queued or runs."""
    return record.status in UNFINISHED and is_background(record)


def is_background(record: Record) -> bool:
    """Searches the body before parsing it, because a body may hold 10 MiB of instructions."""
    return bool(_BACKGROUND.search(record.body)) and stored_content.body_of(record).get("background") is True


def require_followable(record: Record) -> None:
    """DataDamaged: a response is unfinished, but no background response, so no process will ever end it."""
    if record.status in UNFINISHED and not is_background(record):
        raise damage.report(f"response '{record.id}'", "it is unfinished, but no background response")
