"""Responses and turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from antiphon_core.errors import AlreadyExists, AntiphonError, LimitExceeded, StoreUnavailable
from antiphon_core.ids import tree_tag
from antiphon_core.ports.store import (
    Fence,
    History,
    Precondition,
    Record,
    Stamp,
    Status,
    TurnRequest,
    TurnStart,
)
from antiphon_store.decisions import conversations, forks, keys, leases, lineage, nodes, records, turns
from antiphon_store.decisions.records import CrowdedSession, OccupiedId
from antiphon_store.engine.operations import on_response, on_session, under_fence
from antiphon_store.engine.reclaiming import Reclaiming
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Index, Partition
from antiphon_store.values import Write

_Answer = TypeVar("_Answer")

PRECONDITION_FENCE = "precondition.fence.session_id"


class RecordOperations(Reclaiming):
    """Single responses, the chains that they end, leases of sessions, and turns without a key."""

    fetch = on_response(records.fetch, only_reads=True)
    ancestry = on_response(lineage.ancestry, only_reads=True)
    acquire_lease = on_session(leases.acquire)
    renew_lease = under_fence(leases.renew)
    release_lease = under_fence(leases.release)
    describe_session = on_session(forks.describe, only_reads=True)

    async def put(self, tenant: str, write: Write) -> Stamp:
        """`commit_turn` without the fence of a session."""
        return await self.commit_turn(tenant, write, None)

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        """Makes a readable record unreadable. A sweep takes away what nothing needs any more.

        ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
        decision = partial(records.remove, response_id=response_id, precondition=precondition)
        await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        """The fence and the precondition, the status, the next version, in one step. The same change again changes
        nothing. ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""
        decision = partial(records.change_status, response_id=response_id, status=status, precondition=precondition)
        return await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        """The lease of the session (when one is named) and the history, in one step: a refused history takes no
        lease. `max_bytes` bounds the length of its items. Waiting is not done here. A previous response must have
        ended; the head of a session is what the last commit made it.

        PreviousResponseNotFound, PreviousResponseNotReady, SessionLocked, ChainTooLong."""
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

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        """Inserts or replaces one record (`decisions.records`). In one step: the fence of the precondition, the
        precondition, that the parent is readable, the new place in the tree, the end of the log; and under the `fence`
        of a session that its lease lives, its new head, and the end of the lease.

        A fence is a job's when there is a job of its `session_id`, else a session's; then the head of that session may
        be the parent even when its id was deleted.

        ResponseNotFound: the parent is not readable. AlreadyExists, VersionMismatch, StatusMismatch, StaleFence.
        PositionMismatch, LogClosed: of `log_end`. LimitExceeded: the session made as many as it may."""
        sessions = list(_sessions_of(write.record, fence, write.precondition.fence))
        bounded = write
        while True:
            decision = partial(turns.commit, write=bounded, fence=fence)
            try:
                return await self._trees.of_record(tenant, write.record.id, sessions, decision)
            except OccupiedId as occupied:
                if not await self._clear(_tree(tenant, occupied.response_id), occupied.response_id):
                    raise AlreadyExists.of(occupied.response_id) from None
            except CrowdedSession as crowded:
                most = write.session_responses_max or 0
                dead = await self._count_dead(_tree(tenant, write.record.id), crowded.session_id, most)
                bounded = replace(write, session_responses_max=most + dead)

    async def require_room(self, tenant: str, session_id: str, *, holder: str, most: int) -> None:
        """Returns if a turn of `holder` may make one more response in the session, as things stand. A queued turn has
        made its own already. LimitExceeded."""
        partition = await self._trees.locate(tenant, session_id)
        _, made = await self._rows.page(partition, Index.MADE, session_id, after=None, limit=most)
        has_made_its_own = partial(records.is_stored, response_id=holder)
        if len(made) < most or await self._trees.of_response(tenant, holder, has_made_its_own):
            return
        try:
            await self._count_dead(partition, session_id, most)
        except LimitExceeded:
            raise records.too_many(session_id, most, field="conversation") from None

    async def _count_dead(self, partition: Partition, session_id: str, most: int) -> int:
        """How many entries of the session are of responses that cannot be read. LimitExceeded: too many can."""
        total = readable = 0
        after = None
        while True:
            now_ms, page = await self._rows.page(
                partition, Index.MADE, session_id, after=after, limit=1000, with_rows=True
            )
            total += len(page)
            readable += sum(nodes.is_readable(each.row, now_ms) for each in page)
            if readable >= most:
                raise records.too_many(session_id, most)
            if len(page) < 1000:
                return total - readable
            after = (page[-1].at, page[-1].id)


class KeyedOperations(RecordOperations):
    """Turns and writes under an idempotency key. The key lies apart from the tree: it is claimed first, and given up
    when the tree refuses."""

    def __init__(self, rows: RowBackend) -> None:
        super().__init__(rows)
        self._undoing: set[asyncio.Future[None]] = set()

    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        """`begin_turn` under a claim of the key: a refused turn gives the claim up, and a claim that somebody
        else has takes no lease. Of all that come with one key, one is told to run until its claim ends.

        `replay`: the key was bound to this response, which is readable (one that is not leaves the key free).
        `running_response_id`: the key is claimed. IdempotencyMismatch, and what `begin_turn` raises."""
        key = request.idempotency_key or ""
        claim = partial(keys.claim, request=request, claim_ttl_ms=claim_ttl_ms)
        use = await self._run_on_key(tenant, key, claim)
        while not use.is_mine:
            elsewhere = await self._elsewhere(tenant, use)
            if elsewhere is not None:
                return elsewhere
            use = await self._run_on_key(tenant, key, partial(claim, gone_response_id=use.response_id))
        try:
            return await self.begin_turn(tenant, request)
        except (AntiphonError, asyncio.CancelledError):
            await self._undo(tenant, key, use)
            raise

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        """`commit_turn` under a binding of the key. IdempotencyMismatch: the key is another response's,
        and nothing was written; else what `commit_turn` raises."""
        use = await self._run_on_key(tenant, key, partial(keys.bind, response_id=write.record.id))
        return await self._written(tenant, key, use, self.commit_turn(tenant, write, fence))

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        """`put` under a binding of the key; for a bound key the first stamp, whatever became of its
        record. IdempotencyMismatch, and what `put` raises."""
        bind = partial(keys.bind, response_id=write.record.id, fingerprint=fingerprint.hex())
        use = await self._run_on_key(tenant, key, bind)
        if use.stamp is not None:
            return use.stamp
        if use.was_bound:  # the stamp of a write that happened got lost
            row = await self._trees.of_response(
                tenant, write.record.id, partial(lineage.node, response_id=write.record.id), only_reads=True
            )
            if row is not None:
                return nodes.stamp_of(row)
        stamp = await self._written(tenant, key, use, self.put(tenant, write))
        remember = partial(keys.remember_stamp, response_id=write.record.id, stamp=stamp)
        await self._run_on_key(tenant, key, remember)
        return stamp

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        """Frees a key that this response has claimed and not bound; otherwise nothing."""
        await self._run_on_key(tenant, key, partial(keys.forget, response_id=response_id))

    async def _elsewhere(self, tenant: str, use: keys.KeyUse) -> TurnStart | None:
        """The result of the key's response, or that it runs; None when the key is free after all."""
        if not use.is_bound:
            return TurnStart(History(), running_response_id=use.response_id)
        decision = partial(lineage.rows_of, response_ids=[use.response_id])
        now_ms, (row,) = await self._trees.of_response(tenant, use.response_id, decision, only_reads=True)
        if row is None:  # looked at once: it may be written at any moment
            return TurnStart(History(), running_response_id=use.response_id) if use.is_running else None
        if nodes.is_readable(row, now_ms):
            return TurnStart(History(), replay=nodes.to_record(use.response_id, row))
        return None

    async def _written(self, tenant: str, key: str, use: keys.KeyUse, writing: Awaitable[Stamp]) -> Stamp:
        """The stamp of a write whose key was bound. A key is not bound to what was refused, unless the same write again
        was faster."""
        try:
            return await writing
        except StoreUnavailable:
            raise  # it may have happened
        except AntiphonError:
            if not await self._is_stored(tenant, use.response_id):
                await self._undo(tenant, key, use)
            raise

    async def _is_stored(self, tenant: str, response_id: str) -> bool:
        """Whether there is such a response, readable or not."""
        return await self._trees.of_response(tenant, response_id, partial(records.is_stored, response_id=response_id))

    async def _undo(self, tenant: str, key: str, use: keys.KeyUse) -> None:
        """Also when the caller has left."""
        undoing = asyncio.ensure_future(self._run_on_key(tenant, key, partial(keys.undo, use=use)))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    async def _run_on_key(self, tenant: str, key: str, decision: Callable[..., Finish[_Answer]]) -> _Answer:
        return await self._runner.run(keys.partition_of(tenant, key), partial(decision, key=key))


def _tree(tenant: str, response_id: str) -> Partition:
    return Partition(tenant, tree_tag(response_id) or response_id)


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
