"""Accepts requests: reads the history of a turn, leases its session and claims its idempotency key.

One round trip to the store does all three; a turn that needs none of them needs no round trip. Items that the input
references are looked up before it. If the turn will be stored, the store must have shown that it answers and has room.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from antiphon_core import offload
from antiphon_core.clock import Clock
from antiphon_core.errors import (
    AntiphonError,
    ConversationNotFound,
    InvalidRequest,
    PreviousResponseNotFound,
    SessionLocked,
    Timeout,
    TooLarge,
    Unavailable,
)
from antiphon_core.ids import (
    DerivedIds,
    Ids,
    is_conversation_id,
    is_response_id,
    new_conversation_id,
    new_response_id,
    tree_tag,
)
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, canonical, compact, join_arrays, loads
from antiphon_core.limits import PAGE_ITEMS_MAX, RECORD_BYTES_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import History, Order, ResponseStore, TurnRequest, TurnStart
from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import correlation, metrics, phases
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.stream_slots import hold_bytes
from antiphon_edge.sealed import context as sealed_context
from antiphon_edge.sealed.items import opened
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.store_calls import StoreWatch
from antiphon_edge.turns import turn_input
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.cleanup import Cleanup

NOTHING_BEFORE = TurnStart(History())
_UNDO_FAILED = "a request that was given up keeps its lease and key until they expire"


class TurnStarter:
    """Accepts requests. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        watch: StoreWatch,
        cleanup: Cleanup,
        *,
        clock: Clock,
        ids: Ids,
        sealer: Sealer,
        wait_ms: int,
        long_work: LongWork,
    ) -> None:
        """`store` fails fast. `wait_ms`: how long a turn waits for another turn that runs in its session."""
        self._sealer = sealer
        self._long_work = long_work
        self._wait_ms = wait_ms
        self._cleanup = cleanup
        self._watch = watch
        self._store = store
        self._clock = clock
        self._ids = ids

    async def begin(
        self,
        tenant: str,
        request: CreateRequest,
        *,
        session_id: str | None = None,
        key: str | None = None,
        carried: bytes | None = None,
    ) -> AcceptedTurn | RepeatedRequest:
        """Accepts a request, or finds the response of an earlier request with the same key.

        `session_id` is the session of a request that names no conversation, `key` the idempotency key. `carried` are
        the items of the response that the request continues, if that is not in the store.

        Raises:
            SessionLocked: another turn has the session.
            IdempotencyMismatch: the key was used for another request.
            AntiphonError: the request is wrong, or the store is unavailable.
        """
        started_s = perf_counter()
        try:
            begun = await self._begin(tenant, request, session_id, key, carried)
            return replace(begun, started_s=started_s) if isinstance(begun, AcceptedTurn) else begun
        finally:
            duration_s = perf_counter() - started_s
            metrics.TURN_START.of().observe(duration_s)
            phases.note(phases.START, duration_s)

    async def _begin(
        self, tenant: str, request: CreateRequest, session_id: str | None, key: str | None, carried: bytes | None
    ) -> AcceptedTurn | RepeatedRequest:
        session_id = request.conversation_id or session_id
        carried = await self._checked_carried(tenant, request, session_id, key, carried)
        given = await self._resolved_input(tenant, request)
        asked = await self._placed_request(tenant, request, session_id, key, carried)
        is_kept = request.store is not False
        if is_kept and key is None:
            await self._watch.require_room()  # before a model generates output that could not be stored
        start = await self._start_counted(tenant, asked, request.conversation_id)
        response_id = str(asked.response_id)
        correlation.note(response_id=response_id)
        if _is_repeated(start):
            earlier = start.replay.id if start.replay is not None else str(start.running_response_id)
            return RepeatedRequest(tenant, earlier, start.replay, key, asked.fingerprint)
        try:
            if key is not None:  # only now: a repeated request is answered without room
                await self._watch.require_room()
            stored = start.history.items
            turn = await self._turn(tenant, response_id, request, stored, given, carried=carried, must_fit=is_kept)
            if turn.size_bytes > request.work_bytes:  # the history, and what the input refers to
                hold_bytes(turn.size_bytes - request.work_bytes)
        except BaseException:
            self._cleanup.schedule(self._abort(tenant, asked, start), _UNDO_FAILED)
            raise
        return self._accepted(request, asked, start, turn)

    async def _checked_carried(
        self, tenant: str, request: CreateRequest, session_id: str | None, key: str | None, carried: bytes | None
    ) -> bytes | None:
        """Checks what the request continues, and returns the items that it carries. InvalidRequest: its fields exclude
        each other. ConversationNotFound: no conversation has such an id."""
        _require_one_predecessor(request, session_id)
        _require_store(request, session_id=session_id, key=key)
        carried = await self._carried_items(tenant, request, carried)
        _require_conversation_id(request.conversation_id)
        return carried

    async def _placed_request(
        self, tenant: str, request: CreateRequest, session_id: str | None, key: str | None, carried: bytes | None
    ) -> TurnRequest:
        """The request to the store, with a new response id in the tree of the response that the turn continues."""
        previous_id = sealed_context.continued_id(request, carried)
        fingerprint = await _fingerprint(request, session_id) if key is not None else b""
        asked = self._store_request(previous_id, session_id, key, fingerprint)
        return await with_response_id(self._store, tenant, asked, self._ids)

    def _accepted(self, request: CreateRequest, asked: TurnRequest, start: TurnStart, turn: Turn) -> AcceptedTurn:
        key = asked.idempotency_key
        return AcceptedTurn(
            turn.tenant,
            turn,
            keep=request.store is not False,
            parent_id=asked.previous_response_id or start.history.head_id,
            lease=start.lease,
            key=key,
            fingerprint=asked.fingerprint,
            logged=key is not None,
            model=request.model,
            made_for=correlation.current(),
            accepted_at_ms=self._clock.now_ms(),
        )

    async def look(self, tenant: str, request: CreateRequest, *, session_id: str | None = None) -> Turn:
        """Makes the turn of a request without accepting it: takes no lease, claims no key and stores nothing.
        `session_id` is the session of a request that names no conversation."""
        _require_one_predecessor(request, session_id)
        given = await self._resolved_input(tenant, request)
        history = await self._history(tenant, request, session_id)
        return await self._turn(tenant, new_response_id(self._ids), request, history, given)

    async def _history(self, tenant: str, request: CreateRequest, session_id: str | None) -> bytes:
        if request.conversation_id is not None:
            return await self._conversation_items(tenant, request.conversation_id)
        carried = await self._carried_items(tenant, request, None)
        if carried is not None:
            return carried
        previous_id = sealed_context.continued_id(request, carried)
        if session_id is not None:
            previous_id = (await self._store.describe_session(tenant, session_id)).head_id
        reading = asyncio.ensure_future(self._start(tenant, self._store_request(previous_id)))
        try:
            await self._watch.while_it_lives(reading)
            return reading.result().history.items
        except PreviousResponseNotFound as error:
            if session_id is None:
                raise
            raise _uncountable(session_id) from error
        finally:
            reading.cancel()

    async def _conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        """All items of a conversation, read without taking its lease."""
        _require_conversation_id(conversation_id)
        pages: list[bytes] = []
        after, has_more = None, True
        while has_more:
            page = await self._store.list_conversation_items(
                tenant, conversation_id, after=after, limit=PAGE_ITEMS_MAX, order=Order.ASCENDING
            )
            pages.append(page.items)
            after, has_more = page.last_id, page.has_more
        return join_arrays(pages)

    async def give_up(self, accepted: AcceptedTurn) -> None:
        """Releases the session lease and the key of a turn without events."""
        if accepted.fence is None and accepted.key is None:
            return
        await self._store.abort_turn(
            accepted.tenant,
            accepted.fence,
            idempotency_key=accepted.key,
            response_id=accepted.response_id if accepted.key is not None else None,
        )

    async def reclaim_session(self, accepted: AcceptedTurn) -> AcceptedTurn:
        """Leases the session of an interrupted turn again, and returns the turn with the new lease.

        Raises:
            SessionLocked: another turn has the session, or added a response to it meanwhile.
            ConversationNotFound: the conversation was deleted.
        """
        if accepted.lease is None:
            return accepted
        session_id = accepted.lease.fence.session_id
        asked = TurnRequest(session_id=session_id, holder=accepted.response_id)
        conversation = loads(accepted.turn.request).get("conversation")
        start = await self._start(accepted.tenant, asked, conversation["id"] if conversation else None)
        if start.history.head_id != accepted.parent_id:
            if start.lease is not None:
                await self._store.release_session(accepted.tenant, start.lease.fence)
            raise SessionLocked("The conversation went on while the response was waiting.", field="conversation")
        return replace(accepted, lease=start.lease)

    async def _turn(
        self,
        tenant: str,
        response_id: str,
        request: CreateRequest,
        stored: bytes,
        given: _ResolvedInput,
        *,
        carried: bytes | None = None,
        must_fit: bool = False,
    ) -> Turn:
        """Makes the turn of a request. `stored` is the history from the store. `must_fit`: the input will be stored.

        Raises:
            NotFound: the request names a stored prompt that does not exist.
            TooLarge: the store would reject the input.
            RequestRateExceeded: too many long turns of the tenant wait.
        """
        prompt = await turn_input.read_prompt(self._store, tenant, request)

        def build() -> Turn:
            parameters, filled = turn_input.fill_in_prompt(request, prompt, given.items)
            keep = request.store is not False
            history, whole_input = turn_input.history_and_input(carried, stored, filled, keep=keep)
            items = compact(normalise_input(whole_input, self._ids, relative=response_id))
            if must_fit:
                _require_storable(items)
            return Turn(
                response_id=response_id,
                created_at=self._clock.now_ms() // 1000,
                request=compact(parameters),
                history=history,
                input=items,
                tenant=tenant,
            )

        prompt_bytes = turn_input.prompt_work_bytes(request, prompt)
        size_bytes = request.work_bytes + given.added_bytes + len(carried or b"") + prompt_bytes
        async with self._long_work.held(tenant, size_bytes + len(stored)):
            return await offload.run(build, size_bytes=size_bytes)

    def _store_request(
        self,
        previous: str | None,
        session_id: str | None = None,
        key: str | None = None,
        fingerprint: bytes = b"",
    ) -> TurnRequest:
        if previous is not None and not is_response_id(previous):
            raise PreviousResponseNotFound.of(previous)
        response_id = new_response_id(self._ids, relative=previous or session_id)
        return TurnRequest(
            previous_response_id=previous,
            session_id=session_id,
            holder=response_id if session_id is not None else "",
            wait_ms=self._wait_ms if session_id is not None else 0,
            idempotency_key=key,
            fingerprint=fingerprint,
            response_id=response_id,
        )

    async def _start_counted(self, tenant: str, asked: TurnRequest, conversation_id: str | None) -> TurnStart:
        """Starts a turn, and counts its history as long work of the tenant. A turn that may wait for the lease of its
        session does not hold long work: the turn that has the lease may need it."""
        if _needs_no_start(asked):
            return NOTHING_BEFORE
        if asked.session_id is not None:
            return await self._start_or_undo(tenant, asked, conversation_id)
        async with self._long_work.reading(tenant) as note_bytes:
            start = await self._start_or_undo(tenant, asked, conversation_id)
            note_bytes(len(start.history.items))
            return start

    async def _start_or_undo(self, tenant: str, asked: TurnRequest, conversation_id: str | None) -> TurnStart:
        """Calls `_start`, and undoes it if the caller is cancelled or the store's answer is lost."""
        starting = asyncio.ensure_future(self._start(tenant, asked, conversation_id))
        try:
            await self._watch.while_it_lives(starting)
            return starting.result()
        except (asyncio.CancelledError, Unavailable, Timeout):
            self._cleanup.schedule(self._undo(tenant, asked, starting), _UNDO_FAILED)
            raise

    async def _undo(self, tenant: str, asked: TurnRequest, starting: asyncio.Future[TurnStart]) -> None:
        """Releases the lease and the key that `starting` took. If its answer is lost, the call is repeated, without
        waiting for another turn: the store answers a repeated call with the same lease and key."""
        starting.cancel()
        await asyncio.wait([starting])
        has_answer = not starting.cancelled() and starting.exception() is None
        try:
            start = starting.result() if has_answer else await self._start(tenant, replace(asked, wait_ms=0))
        except AntiphonError:
            return  # nothing was taken, as far as can be known
        await self._abort(tenant, asked, start)

    async def _abort(self, tenant: str, asked: TurnRequest, start: TurnStart) -> None:
        if start.lease is not None or (asked.idempotency_key is not None and not _is_repeated(start)):
            await self._store.abort_turn(
                tenant,
                start.lease.fence if start.lease is not None else None,
                idempotency_key=asked.idempotency_key,
                response_id=asked.response_id if asked.idempotency_key is not None else None,
            )

    async def _start(self, tenant: str, asked: TurnRequest, conversation_id: str | None = None) -> TurnStart:
        """Starts a turn at the store. A session is created by its first turn, but a conversation must exist: it is
        looked up under its lease, because a leased conversation cannot be deleted. Raises ConversationNotFound."""
        if _needs_no_start(asked):
            return NOTHING_BEFORE
        if asked.idempotency_key is None:
            asked = replace(asked, response_id=None)
        start = await self._store.begin_turn(tenant, asked)
        if conversation_id is not None and start.lease is not None:
            try:
                await self._store.get_conversation(tenant, conversation_id)
            except BaseException:
                await self._abort(tenant, asked, start)
                raise
        return start

    async def _carried_items(self, tenant: str, request: CreateRequest, carried: bytes | None) -> bytes | None:
        """Returns the items that a request carries, maybe sealed in `previous_response`. Raises InvalidRequest."""
        if carried is not None or request.previous_response is None:
            return carried

        def open_all(items: Sequence[Object], where: str) -> list[Object]:
            return opened(items, self._sealer, tenant, where=where)

        def bring() -> bytes | None:
            return sealed_context.carried_items(request, self._sealer, tenant, self._ids, open_all)

        return await offload.run(bring, size_bytes=request.work_bytes)

    async def _resolved_input(self, tenant: str, request: CreateRequest) -> _ResolvedInput:
        """Returns the input, with sealed content opened and each item reference replaced by its item."""

        def open_all() -> str | list[Object]:
            given = request.input_given
            return given if isinstance(given, str) else opened(given, self._sealer, tenant)

        given = await offload.run(open_all, size_bytes=request.work_bytes)
        if isinstance(given, str):
            return _ResolvedInput(given)
        return _ResolvedInput(*await turn_input.look_up_references(self._store, tenant, given, field="input"))


class _ResolvedInput(NamedTuple):
    """An input with sealed content opened and without item references. `added_bytes` as in ResolvedItems."""

    items: str | Sequence[Object]
    added_bytes: int = 0


def _require_storable(items: bytes) -> None:
    """Checks the size of an input before its response is generated. References and carried items make it larger than
    its request. TooLarge: the store would reject it."""
    if len(items) > RECORD_BYTES_MAX:
        raise TooLarge(f"The input is {len(items)} bytes long; at most {RECORD_BYTES_MAX} are stored.", field="input")


def _needs_no_start(asked: TurnRequest) -> bool:
    """Whether a turn has no history, session or key, so that the store is not needed before the turn ends."""
    return asked.previous_response_id is None and asked.session_id is None and asked.idempotency_key is None


def _is_repeated(start: TurnStart) -> bool:
    return start.replay is not None or start.running_response_id is not None


def _require_conversation_id(conversation_id: str | None) -> None:
    """Raises ConversationNotFound for an id that no conversation can have."""
    if conversation_id is not None and not is_conversation_id(conversation_id):
        raise ConversationNotFound.of(conversation_id)


async def _fingerprint(request: CreateRequest, session_id: str | None) -> bytes:
    """A hash of the request, which tells two requests under one key apart."""

    def digest() -> bytes:
        previous = request.previous_response
        whole = {"input": request.input_given, "previous_response": previous and previous.model_dump()}
        return hashlib.sha256(canonical([request.asked() | whole, session_id])).digest()

    return await offload.run(digest, size_bytes=request.work_bytes)


def _uncountable(session_id: str) -> InvalidRequest:
    """The error for a history that only a turn can read: a session continues its last response even if that was
    deleted."""
    return InvalidRequest(
        f"The last response of the session '{session_id}' was deleted: its history can be counted after its next turn.",
        code="previous_response_not_found",
    )


def _require_one_predecessor(request: CreateRequest, session_id: str | None) -> None:
    for name in ("previous_response_id", "previous_response"):
        if getattr(request, name) is not None and session_id is not None:
            raise InvalidRequest(
                f"'{name}' and a session exclude each other: the session knows what it continues.",
                field=name,
                code="mutually_exclusive_parameters",
            )


def _require_store(request: CreateRequest, *, session_id: str | None, key: str | None) -> None:
    """InvalidRequest: the request has 'store': false, and something else that needs a stored response."""
    if request.store is not False:
        return
    wanted = {
        "background": bool(request.background),
        "conversation": session_id is not None,
        "Idempotency-Key": key is not None,
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise InvalidRequest(
                f"'{name}' needs 'store': true. With false nothing is stored.", field=name, code="invalid_value"
            )


async def with_response_id(store: ResponseStore, tenant: str, asked: TurnRequest, ids: Ids) -> TurnRequest:
    """Returns the request with the id of a new response in the tree of its session."""
    if asked.session_id is None or tree_tag(asked.session_id) is not None:
        return asked
    head_id = (await store.describe_session(tenant, asked.session_id)).head_id
    response_id = new_response_id(ids, relative=head_id or _root_of(tenant, asked.session_id))
    return replace(asked, response_id=response_id, holder=response_id)


def _root_of(tenant: str, session_id: str) -> str:
    """An id in the tree of a session without responses. Clients can compute the tag of the tree, but not the ids of its
    responses: the rest of those is random."""
    return new_conversation_id(DerivedIds(f"session\n{tenant}\n{session_id}"))
