"""Responses and turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from antiphon_core.errors import AlreadyExists, AntiphonError, LimitExceeded, StoreUnavailable
from antiphon_core.ids import tree_tag
from antiphon_core.ports.store import (
    Fence,
    History,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    Status,
    TurnRequest,
    TurnStart,
)
from antiphon_store.backends.base import Write
from antiphon_store.decisions import conversations, forks, keys, leases, lineage, nodes, records, turns
from antiphon_store.decisions.records import CrowdedSession, OccupiedId
from antiphon_store.engine.reclaiming import Reclaiming
from antiphon_store.engine.trees import Trees
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Index, Partition
from antiphon_store.rows.runner import DecisionRunner

_Answer = TypeVar("_Answer")

PRECONDITION_FENCE = "precondition.fence.session_id"


class RecordOperations:
    """Single responses, and the chains that they end."""

    def __init__(self, rows: RowBackend, trees: Trees, reclaiming: Reclaiming) -> None:
        self._rows = rows
        self._trees = trees
        self._reclaiming = reclaiming

    async def put(self, tenant: str, write: Write) -> Stamp:
        return await self.write(tenant, write, None)

    async def write(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        """`put`, or with the fence of a session a commit."""
        sessions = list(_sessions_of(write.record, fence, write.precondition.fence))
        bounded = write
        while True:
            decision = partial(turns.commit, write=bounded, fence=fence)
            try:
                return await self._trees.of_record(tenant, write.record.id, sessions, decision)
            except OccupiedId as occupied:
                if not await self._reclaiming.clear(_tree(tenant, occupied.response_id), occupied.response_id):
                    raise AlreadyExists.of(occupied.response_id) from None
            except CrowdedSession as crowded:
                most = write.session_responses_max or 0
                dead = await self._count_dead(_tree(tenant, write.record.id), crowded.session_id, most)
                bounded = replace(write, session_responses_max=most + dead)

    async def fetch(self, tenant: str, response_id: str) -> Record:
        decision = partial(records.fetch, response_id=response_id)
        return await self._trees.of_response(tenant, response_id, decision, only_reads=True)

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        decision = partial(records.remove, response_id=response_id, precondition=precondition)
        await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        decision = partial(records.change_status, response_id=response_id, status=status, precondition=precondition)
        return await self._trees.of_record(tenant, response_id, _fence_of(precondition), decision)

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        decision = partial(lineage.ancestry, response_id=response_id, max_depth=max_depth, max_bytes=max_bytes)
        return await self._trees.of_response(tenant, response_id, decision, only_reads=True)

    async def require_room(self, tenant: str, session_id: str, *, holder: str, most: int) -> None:
        """Returns if a turn of `holder` may make one more response in the session, as things stand. A queued turn has
        made its own already. LimitExceeded."""
        partition = await self._trees.locate(tenant, session_id)
        _, made = await self._rows.page(partition, Index.MADE, session_id, after=None, limit=most)
        if len(made) < most or await self._trees.of_response(
            tenant, holder, partial(records.is_stored, response_id=holder)
        ):
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


class SessionOperations:
    """Leases, and turns without a key."""

    def __init__(self, trees: Trees, records_: RecordOperations) -> None:
        self._trees = trees
        self._records = records_

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        decision = partial(leases.acquire, session_id=session_id, holder=holder, ttl_ms=ttl_ms)
        return await self._trees.of_session(tenant, session_id, decision)

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        return await self._trees.of_session(tenant, fence.session_id, partial(leases.renew, fence=fence, ttl_ms=ttl_ms))

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        return await self._trees.of_session(tenant, fence.session_id, partial(leases.release, fence=fence))

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        decision = partial(forks.describe, session_id=session_id)
        return await self._trees.of_session(tenant, session_id, decision, only_reads=True)

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
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
        return await self._records.write(tenant, write, fence)


class KeyedOperations:
    """Turns and writes under an idempotency key. The key lies apart from the tree: it is claimed first, and given up
    when the tree refuses."""

    def __init__(
        self, runner: DecisionRunner, sessions: SessionOperations, records_: RecordOperations, trees: Trees
    ) -> None:
        self._runner = runner
        self._sessions = sessions
        self._records = records_
        self._trees = trees
        self._undoing: set[asyncio.Future[None]] = set()

    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        key = request.idempotency_key or ""
        claim = partial(keys.claim, request=request, claim_ttl_ms=claim_ttl_ms)
        use = await self._run(tenant, key, claim)
        while not use.is_mine:
            elsewhere = await self._elsewhere(tenant, use)
            if elsewhere is not None:
                return elsewhere
            use = await self._run(tenant, key, partial(claim, gone_response_id=use.response_id))
        try:
            return await self._sessions.begin_turn(tenant, request)
        except (AntiphonError, asyncio.CancelledError):
            await self._undo(tenant, key, use)
            raise

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        use = await self._run(tenant, key, partial(keys.bind, response_id=write.record.id))
        return await self._written(tenant, key, use, self._sessions.commit_turn(tenant, write, fence))

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        bind = partial(keys.bind, response_id=write.record.id, fingerprint=fingerprint.hex())
        use = await self._run(tenant, key, bind)
        if use.stamp is not None:
            return use.stamp
        if use.was_bound:  # the stamp of a write that happened got lost
            row = await self._trees.of_response(
                tenant, write.record.id, partial(lineage.node, response_id=write.record.id), only_reads=True
            )
            if row is not None:
                return nodes.stamp_of(row)
        stamp = await self._written(tenant, key, use, self._records.put(tenant, write))
        remember = partial(keys.remember_stamp, response_id=write.record.id, stamp=stamp)
        await self._run(tenant, key, remember)
        return stamp

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        await self._run(tenant, key, partial(keys.forget, response_id=response_id))

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
        undoing = asyncio.ensure_future(self._run(tenant, key, partial(keys.undo, use=use)))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    async def _run(self, tenant: str, key: str, decision: Callable[..., Finish[_Answer]]) -> _Answer:
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
