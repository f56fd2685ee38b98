"""Accepts requests: reads the history of a turn, leases its session and claims its idempotency key.

One round trip to the store does all three; a turn that needs none of them needs no round trip. Items that the input
references are looked up before it. If the turn will be stored, the store must have shown that it answers and has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.errors import (
    AntiphonError,
    ApprovalAlreadyUsed,
    InvalidRequest,
    PreviousResponseNotFound,
    SessionLocked,
    Timeout,
    Unavailable,
)
from antiphon_core.ids import Ids, new_response_id, session_tag, tree_tag
from antiphon_core.jsons import Object, join_arrays, loads
from antiphon_core.limits import PAGE_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import History, Order, ResponseStore, TurnRequest, TurnStart
from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import correlation, metrics
from antiphon_edge import phases
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.rate_limits import hold_bytes
from antiphon_edge.store_calls import StoreWatch
from antiphon_edge.tools import approvals
from antiphon_edge.tools.declared_servers import NO_TOOLS, DeclaredTools, credentials_of
from antiphon_edge.turns import turn_approvals, turn_input
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.lineage_search import LineageSearch
from antiphon_edge.turns.lost_turns import LostTurns
from antiphon_edge.turns.resent_conversations import NOT_RESENT, ResentConversation
from antiphon_edge.turns.turn_input import ResolvedItems, TurnBuilder

_TURN_START = metrics.TURN_START.of()
NOTHING_BEFORE = TurnStart(History())
_UNDO_FAILED = "a request that was given up keeps its lease and key until they expire"


class TurnStarter:
    """Accepts requests. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        watch: StoreWatch,
        cleanup: Cleanup,
        builder: TurnBuilder,
        lost_turns: LostTurns,
        search: LineageSearch,
        *,
        clock: Clock,
        ids: Ids,
        wait_ms: int,
        long_work: LongWork,
    ) -> None:
        """`store` fails fast. `wait_ms`: how long a turn waits for another turn that runs in its session."""
        self._lost_turns = lost_turns
        self._search = search
        self._builder = builder
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
            return await self._begin(tenant, request, session_id, key, carried, started_s=started_s)
        finally:
            duration_s = perf_counter() - started_s
            _TURN_START.observe(duration_s)
            phases.note(phases.START, duration_s)

    async def _begin(
        self,
        tenant: str,
        request: CreateRequest,
        session_id: str | None,
        key: str | None,
        carried: bytes | None,
        *,
        started_s: float,
    ) -> AcceptedTurn | RepeatedRequest:
        session_id = request.conversation_id or session_id
        turn_input.require_consistent(request, session_id=session_id, key=key)
        if carried is None and request.previous_response is not None:
            carried = await self._builder.carried_items(tenant, request)
        given = await self._builder.resolved_input(tenant, request)
        store_request = await self._store_request(tenant, request, session_id, key, carried, given.items)
        resent = await self._resent(tenant, request, given, store_request, carried)
        is_stored = request.store is not False
        if is_stored and key is None:
            await self._watch.require_room()  # before a model generates output that could not be stored
        start = await self._start_counted(tenant, store_request, request.conversation_id)
        response_id = str(store_request.response_id)
        correlation.note(response_id=response_id)
        if key is not None and start.is_repeated:
            return _repeated_request(tenant, request, store_request, start)
        try:
            if key is not None:  # only now: a repeated request is answered without room
                await self._watch.require_room()
            if start.approvals:
                approvals.require_unchanged(start.approvals, given.items)
            build = self._builder.turn(
                tenant, response_id, request, start.history, given, carried=carried, must_fit=is_stored
            )
            turn = await self._prepare(tenant, request, build, resent.keys)
        except BaseException:
            self._cleanup.schedule(self._abort(tenant, store_request, start), _UNDO_FAILED)
            raise
        return self._accept(request, store_request, start, turn, resent, started_s)

    async def _resent(
        self,
        tenant: str,
        request: CreateRequest,
        given: ResolvedItems,
        store_request: TurnRequest,
        carried: bytes | None,
    ) -> ResentConversation:
        """The conversation that the input of a turn resends; none if the turn names what it continues."""
        has_predecessor = store_request.previous_response_id is not None or store_request.session_id is not None
        if has_predecessor or carried is not None:
            return NOT_RESENT
        return await self._builder.resent_conversation(tenant, request, given)

    async def _prepare(
        self,
        tenant: str,
        request: CreateRequest,
        build: Coroutine[Any, Any, Turn],
        keys: Sequence[bytes],
    ) -> Turn:
        """The turn that `build` makes, with the lineage of the conversation that it resends: the one under `keys`,
        which is searched for meanwhile."""
        search = self._search.begin(tenant, keys, is_stored=request.store is not False) if keys else None
        try:
            turn = await build
            found = await self._search.end(search) if search is not None else b""
        finally:
            if search is not None:
                search.cancel()
        if found:
            turn = replace(turn, round_lineage=found)
        added_bytes = turn.size_bytes - request.work_bytes
        if added_bytes > 0:  # the history, and what the input refers to
            hold_bytes(added_bytes)
        return turn

    async def _store_request(
        self,
        tenant: str,
        request: CreateRequest,
        session_id: str | None,
        key: str | None,
        carried: bytes | None,
        items: Sequence[Object],
    ) -> TurnRequest:
        """The request to the store, with a new response id in the tree of the response that the turn continues, or of
        the approvals that its input answers."""
        previous_id = turn_input.continued_id(request, carried)
        answers = approvals.answers_in(items) if not isinstance(request.input, str) else ()
        if session_id is not None:
            response_id = new_response_id(self._ids, tag=await session_tree(self._store, tenant, session_id))
        else:
            tag = approvals.tree_of(answers) if answers and previous_id is None else None
            response_id = new_response_id(self._ids, relative=previous_id, tag=tag)
        if answers:
            approvals.require_callable(answers, request)
            has_history = previous_id is not None or session_id is not None
            is_stored = request.store is not False
            approvals.require_answerable(
                answers, items, response_id=response_id, has_history=has_history, is_stored=is_stored
            )
        return TurnRequest(
            previous_response_id=previous_id,
            session_id=session_id,
            holder=response_id if session_id is not None else "",
            wait_ms=self._wait_ms if session_id is not None else 0,
            idempotency_key=key,
            fingerprint=await turn_input.fingerprint_of(request, session_id) if key is not None else b"",
            response_id=response_id,
            wants_lineage=True,
            consumes=answers,
        )

    def _accept(
        self,
        request: CreateRequest,
        store_request: TurnRequest,
        start: TurnStart,
        turn: Turn,
        resent: ResentConversation,
        started_s: float,
    ) -> AcceptedTurn:
        key = store_request.idempotency_key
        accepted = AcceptedTurn(
            turn.tenant,
            turn,
            is_stored=request.store is not False,
            parent_id=store_request.previous_response_id or start.history.head_id,
            lease=start.lease,
            key=key,
            fingerprint=store_request.fingerprint,
            conversation_state=resent.state,
            has_log=key is not None,
            declared=DeclaredTools.of(request) if request.tools is not None else NO_TOOLS,
            model=request.model,
            made_for=correlation.current(),
            accepted_at_ms=self._clock.now_ms(),
            credentials=credentials_of(request) if request.tools is not None else {},
            consumes=store_request.consumes,
            started_s=started_s,
        )
        if accepted.consumes:
            turn_approvals.note_answers(accepted)
        return accepted

    async def look(self, tenant: str, request: CreateRequest, *, session_id: str | None = None) -> Turn:
        """Makes the turn of a request without accepting it: takes no lease, claims no key and stores nothing.
        `session_id` is the session of a request that names no conversation."""
        session_id = request.conversation_id or session_id
        if session_id is not None:
            turn_input.require_one_predecessor(request, session_id)
        given = await self._builder.resolved_input(tenant, request)
        history = await self._history(tenant, request, session_id)
        return await self._builder.turn(tenant, new_response_id(self._ids), request, History(history), given)

    async def _history(self, tenant: str, request: CreateRequest, session_id: str | None) -> bytes:
        if request.conversation_id is not None:
            return await self._conversation_items(tenant, request.conversation_id)
        carried = await self._builder.carried_items(tenant, request)
        if carried is not None:
            return carried
        previous_id = turn_input.continued_id(request, carried)
        if session_id is not None:
            previous_id = (await self._store.describe_session(tenant, session_id)).head_id
        if previous_id is None:
            return NOTHING_BEFORE.history.items
        reading = asyncio.ensure_future(self._start(tenant, TurnRequest(previous_response_id=previous_id)))
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
        pages: list[bytes] = []
        after, has_more = None, True
        while has_more:
            page = await self._store.list_conversation_items(
                tenant, conversation_id, after=after, limit=PAGE_ITEMS_MAX, order=Order.ASCENDING
            )
            pages.append(page.items)
            after, has_more = page.last_id, page.has_more
        return join_arrays(pages)

    async def give_back_approvals(self, accepted: AcceptedTurn, *, is_under_fence: bool = False) -> None:
        """Gives back the approvals of a turn that ended without an answer, except those whose calls were sent.
        `is_under_fence`: only while the turn has its job."""
        await turn_approvals.give_back(self._store, accepted, is_under_fence=is_under_fence)

    async def give_up(self, accepted: AcceptedTurn) -> None:
        """Releases the session lease and the key of a turn, and gives its approvals back as `give_back_approvals`."""
        await self.give_back_approvals(accepted)
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
        store_request = TurnRequest(session_id=session_id, holder=accepted.response_id)
        conversation = loads(accepted.turn.request).get("conversation")
        start = await self._start(accepted.tenant, store_request, conversation["id"] if conversation else None)
        if start.history.head_id != accepted.parent_id:
            if start.lease is not None:
                await self._store.release_session(accepted.tenant, start.lease.fence)
            raise SessionLocked("The conversation went on while the response was waiting.", field="conversation")
        return replace(accepted, lease=start.lease)

    async def _start_counted(self, tenant: str, store_request: TurnRequest, conversation_id: str | None) -> TurnStart:
        """Starts a turn at the store, and counts its history as long work of the tenant. A turn that may wait for the
        lease of its session does not hold long work: the turn that has the lease may need it."""
        if not _needs_store(store_request):
            return NOTHING_BEFORE
        if store_request.session_id is not None:
            return await self._start_or_undo(tenant, store_request, conversation_id)
        async with self._long_work.reading(tenant) as note_bytes:
            start = await self._start_or_undo(tenant, store_request, conversation_id)
            note_bytes(len(start.history.items))
            return start

    async def _start_or_undo(self, tenant: str, store_request: TurnRequest, conversation_id: str | None) -> TurnStart:
        """Calls `_start`, and undoes it if the caller is cancelled or the store's answer is lost."""
        starting = asyncio.ensure_future(self._start(tenant, store_request, conversation_id))
        try:
            await self._watch.while_it_lives(starting)
            return starting.result()
        except (asyncio.CancelledError, Unavailable, Timeout):
            self._cleanup.schedule(self._undo(tenant, store_request, starting), _UNDO_FAILED)
            raise

    async def _undo(self, tenant: str, store_request: TurnRequest, starting: asyncio.Future[TurnStart]) -> None:
        """Releases the lease and the key that `starting` took. If its answer is lost, the call is repeated, without
        waiting for another turn: the store answers a repeated call with the same lease and key."""
        starting.cancel()
        await asyncio.wait([starting])
        has_answer = not starting.cancelled() and starting.exception() is None
        try:
            start = starting.result() if has_answer else await self._start(tenant, replace(store_request, wait_ms=0))
        except AntiphonError:
            return  # nothing was taken, as far as can be known
        await self._abort(tenant, store_request, start)

    async def _abort(self, tenant: str, store_request: TurnRequest, start: TurnStart) -> None:
        if start.approvals:
            ids = [each.id for each in start.approvals]
            await turn_approvals.give_back_ids(self._store, tenant, ids, str(store_request.response_id))
        if start.lease is not None or (store_request.idempotency_key is not None and not start.is_repeated):
            await self._store.abort_turn(
                tenant,
                start.lease.fence if start.lease is not None else None,
                idempotency_key=store_request.idempotency_key,
                response_id=store_request.response_id if store_request.idempotency_key is not None else None,
            )

    async def _start(self, tenant: str, store_request: TurnRequest, conversation_id: str | None = None) -> TurnStart:
        """Starts a turn at the store. A session is created by its first turn, but a conversation must exist: it is
        looked up under its lease, because a leased conversation cannot be deleted. Raises ConversationNotFound."""
        if store_request.idempotency_key is None and not store_request.consumes:
            store_request = replace(store_request, response_id=None)
        start = await self._begin_turn(tenant, store_request)
        if conversation_id is not None and start.lease is not None:
            try:
                await self._store.get_conversation(tenant, conversation_id)
            except BaseException:
                await self._abort(tenant, store_request, start)
                raise
        return start

    async def _begin_turn(self, tenant: str, store_request: TurnRequest) -> TurnStart:
        """Begins a turn at the store. A response that it continues, or that has used its approval, may have lost its
        edge, and is ended first then."""
        try:
            return await self._store.begin_turn(tenant, store_request)
        except ApprovalAlreadyUsed as error:
            await self._lost_turns.end_if_lost(tenant, error.facts["used_by"])
        except PreviousResponseNotFound:
            previous_id = store_request.previous_response_id
            if previous_id is None or not await self._lost_turns.end_if_lost(tenant, previous_id):
                raise
        return await self._store.begin_turn(tenant, store_request)


def _needs_store(request: TurnRequest) -> bool:
    """Whether a turn begins at the store."""
    return bool(request.previous_response_id or request.session_id or request.idempotency_key or request.consumes)


def _repeated_request(
    tenant: str, request: CreateRequest, store_request: TurnRequest, start: TurnStart
) -> RepeatedRequest:
    return RepeatedRequest(
        tenant,
        start.earlier_id,
        start.replay,
        store_request.idempotency_key,
        store_request.fingerprint,
        credentials=credentials_of(request),
    )


def _uncountable(session_id: str) -> InvalidRequest:
    """The error for a history that only a turn can read: a session continues its last response even if that was
    deleted."""
    return InvalidRequest(
        f"The last response of the session '{session_id}' was deleted: its history can be counted after its next turn.",
        code="previous_response_not_found",
    )


async def session_tree(store: ResponseStore, tenant: str, session_id: str) -> str:
    """The tag of the tree of a session's next response: the store rejects a response in another tree than its parent's.

    The id of a conversation names the tree. An id that a client chose for its session does not, so the session's head
    is read. A session without a head has a tree that is derived from its id: each of several concurrent first turns
    continues the one before, so all of them must be in one tree.
    """
    tag = tree_tag(session_id)
    if tag is None:
        head_id = (await store.describe_session(tenant, session_id)).head_id
        tag = tree_tag(head_id) if head_id is not None else None
    return tag or session_tag(tenant, session_id)
