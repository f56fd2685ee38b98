"""Operations on sessions and turns: waiting for leases, idempotency keys, and wake-ups after a commit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from antiphon_core import offload
from antiphon_core.errors import DataDamaged, ResponseNotFound
from antiphon_core.ports.checks import check_owner
from antiphon_core.ports.store import Fence, History, Lease, ResponseStore, TurnRequest, TurnStart
from antiphon_store.calls import implements
from antiphon_store.decisions import approvals, conversations, forks, leases, records, turns
from antiphon_store.rows.model import Index, Partition, Span
from antiphon_store.rows.view import Finish, nothing
from antiphon_store.topics.records import RecordOperations
from antiphon_store.topics.topic import of_fence, of_session, one_step
from antiphon_store.topics.writes import WriteOperations

_Begin = Callable[..., Finish[tuple[TurnStart, Sequence[str]]]]
_ENTRIES_TRIED = 4
"""How many responses are tried for a lineage under one key. A deleted one may keep its entry until the next sweep."""


class TurnOperations(RecordOperations, WriteOperations):
    """Leases of sessions, and turns in two steps."""

    renew_session = one_step(ResponseStore.renew_session, leases.renew, of_fence)
    describe_session = one_step(ResponseStore.describe_session, forks.describe, of_session, only_reads=True)

    @implements(ResponseStore.acquire_session)
    async def acquire_session(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int, wait_ms: int) -> Lease:
        """Takes a lease, waiting up to `wait_ms` for it. Raises the errors of `decisions.leases.acquire`."""
        acquire = partial(leases.acquire, session_id=session_id, holder=holder, ttl_ms=ttl_ms)
        attempt = partial(self._trees.of_session, tenant, session_id, acquire)
        return await self._session_lines.until_free((tenant, session_id), attempt, wait_ms=wait_ms)

    @implements(ResponseStore.release_session)
    async def release_session(self, tenant: str, fence: Fence) -> bool:
        """Releases a lease. False: the fence has no live lease."""
        released = await self._trees.of_session(tenant, fence.session_id, partial(leases.release, fence=fence))
        self._session_lines.wake_first((tenant, fence.session_id))
        return released

    @implements(ResponseStore.begin_turn)
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        """Claims the key, then takes the lease and reads the history in one step. An error takes neither lease nor key.

        Raises the errors of `decisions.turns`. IdempotencyMismatch: the key is another request's."""
        if request.lineage_of is not None:
            return TurnStart(History(), found_lineage=await self._lineage_of(tenant, request.lineage_of))
        if request.lineage_keys:
            return TurnStart(History(), found_lineage=await self._find_lineage(tenant, request.lineage_keys))
        begin, key = partial(self._begin, tenant, request), request.idempotency_key
        if key is not None:
            claim_ttl_ms = self._settings.turn_claim_s * 1000
            begin = partial(self._keys.begin, tenant, key, request, begin, claim_ttl_ms=claim_ttl_ms)
        if request.session_id is None:
            return await begin()
        await self._require_room(tenant, request.session_id, holder=request.holder)
        return await self._session_lines.until_free((tenant, request.session_id), begin, wait_ms=request.wait_ms)

    @implements(ResponseStore.abort_turn)
    async def abort_turn(
        self, tenant: str, fence: Fence | None, *, idempotency_key: str | None, response_id: str | None
    ) -> None:
        """Releases the lease, and frees the key if the response has claimed it and not bound it."""
        check_owner(idempotency_key, response_id)
        if idempotency_key is not None and response_id is not None:
            await self._keys.forget(tenant, idempotency_key, response_id)
        if fence is not None:
            await self.release_session(tenant, fence)

    async def _begin(self, tenant: str, request: TurnRequest) -> TurnStart:
        previous_id, session_id = request.previous_response_id, request.session_id
        if session_id is None:
            if previous_id is None:
                if request.consumes:
                    alone = partial(approvals.begin_alone, request=request)
                    taken = await self._trees.of_response(tenant, request.response_id or "", alone)
                    return TurnStart(History(), approvals=taken)
                if request.idempotency_key is None:  # otherwise its claim has shown that the database answers
                    await self._trees.of_response(tenant, "", lambda _view: nothing, only_reads=True)
                return TurnStart(History())
            behind = partial(turns.begin_behind, response_id=previous_id, request=request)
            try:
                return await self._trees.of_response(tenant, previous_id, behind, only_reads=not request.consumes)
            except approvals.UnknownHistory:
                read = partial(turns.read_history, start=previous_id, request=request, starts_at_head=False)
                history = await self._trees.of_response(tenant, previous_id, read, only_reads=True)
                return await self._trees.of_response(tenant, previous_id, partial(behind, history=history))
        begin = partial(turns.begin_in_session, session_id=session_id, request=request)
        try:
            start, removed = await self._begin_behind_head(tenant, session_id, request, begin)
        except turns.EditedContext:
            context = partial(conversations.read_context, session_id=session_id)
            items, removed = await self._trees.of_session(tenant, session_id, context, only_reads=True)
            if len(await _without(items, removed)) > request.max_bytes:
                raise turns.too_long(session_id, "bytes", request.max_depth, request.max_bytes) from None
            begin = partial(begin, was_measured=True)
            start, removed = await self._begin_behind_head(tenant, session_id, request, begin)
        if removed:
            items = await _without(start.history.items, removed)
            start = replace(start, history=replace(start.history, items=items))
        return start

    async def _begin_behind_head(
        self, tenant: str, session_id: str, request: TurnRequest, begin: _Begin
    ) -> tuple[TurnStart, Sequence[str]]:
        """Begins a turn in a session. If an approval is that of an older response than the head, reads which responses
        the turn continues, and again if the session went on meanwhile."""
        read = partial(turns.read_history, start=session_id, request=request, starts_at_head=True)
        while True:
            try:
                return await self._trees.of_session(tenant, session_id, begin)
            except approvals.UnknownHistory:
                history = await self._trees.of_session(tenant, session_id, read, only_reads=True)
                begin = partial(begin, history=history or turns.NO_HISTORY)

    async def _find_lineage(self, tenant: str, keys: Sequence[bytes]) -> bytes:
        """Finds the newest lineage under the first key that a readable response has; empty if there is none. The first
        key is read alone, because nearly always a response has it. A damaged row is skipped: it is another turn's."""
        newest = Span(_ENTRIES_TRIED, is_descending=True)
        for group in filter(None, (keys[:1], keys[1:])):
            partition = Partition(tenant, "")
            names = (name for key in group for name in self._rows.digest_names(key))
            reads = (self._rows.page(partition, Index.RESENT, name, newest) for name in names)
            for _, entries in await asyncio.gather(*reads):
                for each in entries:
                    with contextlib.suppress(ResponseNotFound, DataDamaged):
                        if found := await self._lineage_of(tenant, each.id):
                            return found
        return b""

    def _lineage_of(self, tenant: str, response_id: str) -> Awaitable[bytes]:
        """Reads the lineage of a response. ResponseNotFound, DataDamaged."""
        read = partial(records.lineage_of, response_id=response_id)
        return self._trees.of_response(tenant, response_id, read, only_reads=True)

    async def _require_room(self, tenant: str, session_id: str, *, holder: str) -> None:
        """Checks that a turn of `holder` may make one more response in the session. The holder of a queued turn is the
        id of its response, which exists already. LimitExceeded: the session has too many responses."""
        most = self._settings.max_session_responses
        if most is None:
            return
        partition = await self._trees.locate(tenant, session_id)
        _, made = await self._rows.page(partition, Index.MADE, session_id, Span(most))
        if len(made) >= most and (await self._trees.look_up(tenant, holder))[1] is None:
            await self._count_dead(partition, session_id, most, field="conversation")


async def _without(items: bytes, removed: Sequence[str]) -> bytes:
    return await offload.run(partial(turns.without, items, removed), size_bytes=len(items))
