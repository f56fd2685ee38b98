"""Responses and turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from antiphon_core.errors import AlreadyExists, LimitExceeded
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    Precondition,
    Record,
    Stamp,
    Status,
    TurnRequest,
    TurnStart,
)
from antiphon_store.decisions import conversations, forks, leases, lineage, nodes, records, turns
from antiphon_store.decisions.records import CrowdedSession, OccupiedId
from antiphon_store.engine.keyed import IdempotencyKeys
from antiphon_store.engine.operations import on_response, on_session, under_fence
from antiphon_store.engine.reclaiming import Reclaiming
from antiphon_store.engine.trees import tree_of
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Index, Partition
from antiphon_store.values import Write

PRECONDITION_FENCE = "precondition.fence.session_id"
TURN_CLAIM_MS = 600_000


class RecordOperations(Reclaiming):
    """Single responses, the chains that they end, leases of sessions, and turns."""

    fetch = on_response(records.fetch, only_reads=True)
    ancestry = on_response(lineage.ancestry, only_reads=True)
    acquire_lease = on_session(leases.acquire)
    renew_lease = under_fence(leases.renew)
    release_lease = under_fence(leases.release)
    describe_session = on_session(forks.describe, only_reads=True)

    def __init__(self, rows: RowBackend) -> None:
        super().__init__(rows)
        self._keys = IdempotencyKeys(self._runner, self._trees)

    async def put(self, tenant: str, write: Write, *, key: str | None = None) -> Stamp:
        """Inserts or replaces one record, once for each `key`. Raises what `commit_turn` raises."""
        commit = partial(self._commit, tenant, write, None)
        return await commit() if key is None else await self._keys.put(tenant, key, write.record, commit)

    async def remove(self, tenant: str, response_id: str, *, precondition: Precondition = NO_PRECONDITION) -> None:
        """Makes a readable record unreadable. A sweep takes away what nothing needs any more.

        ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
        decision = partial(records.remove, response_id=response_id, precondition=precondition)
        await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def change_status(
        self, tenant: str, response_id: str, status: Status, *, precondition: Precondition = NO_PRECONDITION
    ) -> Stamp:
        """The fence and the precondition, the status, the next version, in one step. The same change again changes
        nothing. ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
        decision = partial(records.change_status, response_id=response_id, status=status, precondition=precondition)
        return await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def begin_turn(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int = TURN_CLAIM_MS) -> TurnStart:
        """The lease of the session (when one is named) and the history, in one step: a refused history takes no
        lease. `max_bytes` bounds the length of its items. Waiting is not done here. A previous response must have
        ended; the head of a session is what the last commit made it. An idempotency key is claimed for `claim_ttl_ms`.

        PreviousResponseNotFound, PreviousResponseNotReady, SessionLocked, ChainTooLong, IdempotencyMismatch."""
        if request.idempotency_key is None:
            return await self._begin(tenant, request)
        begin = partial(self._begin, tenant, request)
        return await self._keys.begin(tenant, request, begin, claim_ttl_ms=claim_ttl_ms)

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        """Frees a key that this response has claimed and not bound; otherwise nothing."""
        await self._keys.forget(tenant, key, response_id)

    async def _begin(self, tenant: str, request: TurnRequest) -> TurnStart:
        begin = partial(turns.begin, request=request)
        if request.session_id is None:
            behind = request.previous_response_id
            return await self._trees.of_response(tenant, behind or "", begin, only_reads=True)
        try:
            return await self._trees.of_session(tenant, request.session_id, begin)
        except turns.EditedContext:
            context = partial(conversations.read_context, session_id=request.session_id)
            size_bytes = len(await self._trees.of_session(tenant, request.session_id, context, only_reads=True))
            if size_bytes > request.max_bytes:
                raise turns.too_long(request.session_id, "bytes", request.max_depth, request.max_bytes) from None
            return await self._trees.of_session(tenant, request.session_id, partial(begin, was_measured=True))

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None, *, key: str | None = None) -> Stamp:
        """Inserts or replaces one record (`decisions.records`). In one step: the fence of the precondition, the
        precondition, that the parent is readable, the new place in the tree, the end of the log; and under the `fence`
        of a session that its lease lives, its new head, and the end of the lease.

        A fence is a job's when there is a job of its `session_id`, else a session's; then the head of that session may
        be the parent even when its id was deleted.

        ResponseNotFound: the parent is not readable. AlreadyExists, VersionMismatch, StatusMismatch, StaleFence.
        PositionMismatch, LogClosed: of `log_end`. LimitExceeded: the session made as many as it may.
        IdempotencyMismatch: `key` is another response's."""
        commit = partial(self._commit, tenant, write, fence)
        return await commit() if key is None else await self._keys.commit(tenant, key, write.record.id, commit)

    async def _commit(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        sessions = list(_sessions_of(write.record, fence, write.precondition.fence))
        bounded = write
        while True:
            decision = partial(turns.commit, write=bounded, fence=fence)
            try:
                return await self._trees.of_record(tenant, write.record.id, sessions, decision)
            except OccupiedId as occupied:
                if not await self._clear(tree_of(tenant, occupied.response_id), occupied.response_id):
                    raise AlreadyExists.of(occupied.response_id) from None
            except CrowdedSession as crowded:
                most = write.session_responses_max or 0
                dead = await self._count_dead(tree_of(tenant, write.record.id), crowded.session_id, most)
                bounded = replace(write, session_responses_max=most + dead)

    async def require_room(self, tenant: str, session_id: str, *, holder: str, most: int) -> None:
        """Returns if a turn of `holder` may make one more response in the session, as things stand. A queued turn has
        made its own already. LimitExceeded."""
        partition = await self._trees.locate(tenant, session_id)
        _, made = await self._rows.page(partition, Index.MADE, session_id, after=None, limit=most)
        if len(made) < most or (await self._trees.look_up(tenant, holder))[1] is not None:
            return
        try:
            await self._count_dead(partition, session_id, most)
        except LimitExceeded:
            raise records.too_many(session_id, most, field="conversation") from None

    async def _count_dead(self, partition: Partition, session_id: str, most: int) -> int:
        """How many entries of the session are of responses that cannot be read. LimitExceeded: too many can."""
        dead = readable = 0
        async for now_ms, entry in self._entries(partition, Index.MADE, session_id):
            is_readable = nodes.is_readable(entry.row, now_ms)
            readable, dead = readable + is_readable, dead + (not is_readable)
            if readable >= most:
                raise records.too_many(session_id, most)
        return dead


def _fence_of(precondition: Precondition) -> list[tuple[str, str]]:
    fence = precondition.fence
    return [(fence.session_id, PRECONDITION_FENCE)] if fence is not None else []


def _sessions_of(record: Record, fence: Fence | None, other: Fence | None) -> Iterator[tuple[str, str]]:
    """The sessions that a write needs in its tree, each with the field that names it."""
    if record.session_id is not None:
        yield record.session_id, "record.session_id"
    if fence is not None:
        yield fence.session_id, "fence.session_id"
    if other is not None:
        yield other.session_id, PRECONDITION_FENCE
