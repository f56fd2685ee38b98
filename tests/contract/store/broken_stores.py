"""Stores that break one promise each, in the topics beyond records, leases and turns; see test_kit.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from antiphon_core.errors import PreviousResponseNotReady
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import Job, JobPulse
from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.spending import Spend, Spent
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    History,
    Order,
    Precondition,
    Record,
    Stamp,
    Status,
    TurnRequest,
    TurnStart,
)
from antiphon_store.backends.base import Write
from antiphon_store.backends.conversations import Addition
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.roles.lineage import Position, Slice

# ---- Turns ----


class ContinuesWhatRuns(MemoryBackend):
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        try:
            return await super().begin_turn(tenant, request)
        except PreviousResponseNotReady:
            return TurnStart(History())


class ReadsBeforeItLooks(MemoryBackend):
    """What a turn continues, before it looks whether that has ended."""

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        record = self._nodes[tenant, request.previous_response_id or ""].record
        await asyncio.sleep(0)
        start = await super().begin_turn(tenant, request)
        return replace(start, history=replace(start.history, items=record.input_items))


# ---- Lineage ----


class ChangesAnyStatus(MemoryBackend):
    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        return await super().change_status(tenant, response_id, status, NO_PRECONDITION)


class TurnsChildrenAround(MemoryBackend):
    async def children(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        found = await super().children(tenant, response_id, after=after, limit=limit)
        return replace(found, values=found.values[::-1])


class ListsInOneOrder(MemoryBackend):
    async def session_records(
        self, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        return await super().session_records(
            tenant, session_id, after=after, limit=limit, order=Order.ASCENDING, max_bytes=max_bytes
        )


class FindsItemsInAnyOrder(MemoryBackend):
    async def find_items(self, tenant: str, item_ids: Sequence[str], *, max_bytes: int) -> Sequence[ResolvedItem]:
        return (await super().find_items(tenant, item_ids, max_bytes=max_bytes))[::-1]


class ForksTheHead(MemoryBackend):
    """Whatever response was asked for."""

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        head_only = replace(source, up_to_response_id=None) if source.session_id else source
        return await super().fork(tenant, head_only, new_session_id)


class ForksAnew(MemoryBackend):
    """The same fork a second time begins where its source is by then."""

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        self._forks.pop((tenant, new_session_id), None)
        return await super().fork(tenant, source, new_session_id)


# ---- Event logs ----


class AppendsAnywhere(MemoryBackend):
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        log = self._logs.get((tenant, append.response_id))
        position = log.state.next_position if log else 0
        return await super().append_events(
            tenant, replace(append, expected_position=position), fence=fence, ttl_ms=ttl_ms
        )


class NeverClosesLogs(MemoryBackend):
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        return await super().append_events(tenant, replace(append, terminal=False), fence=fence, ttl_ms=ttl_ms)


class ForgetsTheLastEvents(MemoryBackend):
    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        return await super().commit_turn(tenant, replace(write, log_end=None), fence)


# ---- Jobs ----


class GivesJobsTwice(MemoryBackend):
    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        before = {key: job.stored for key, job in self._job_table.jobs.items()}
        claimed = await super().claim_job(tenant, queues, holder=holder, lease_ttl_ms=lease_ttl_ms)
        for key, stored in before.items():
            self._job_table.jobs[key].stored = stored
        return claimed


class HidesCancellation(MemoryBackend):
    async def heartbeat_job(self, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        pulse = await super().heartbeat_job(tenant, fence, lease_ttl_ms=lease_ttl_ms)
        return replace(pulse, cancel_requested=False)


# ---- Conversations ----


class AddsTwice(MemoryBackend):
    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        salt = f"{addition.salt} {len(self._nodes)}"
        return await super().add_items(tenant, conversation_id, replace(addition, salt=salt))


class KeepsRemovedItems(MemoryBackend):
    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        return await self.fetch_conversation(tenant, conversation_id)


class AddsDuringTurns(MemoryBackend):
    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        before = dict(self._sessions)
        if (state := before.get((tenant, conversation_id))) is not None:
            self._sessions[tenant, conversation_id] = replace(state, lease_expires_at_ms=0)
        return await super().add_items(tenant, conversation_id, addition)


# ---- Idempotency keys ----


class ForgetsResults(MemoryBackend):
    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        return await self.commit_turn(tenant, write, fence)


class ClaimsInTwoSteps(MemoryBackend):
    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        before = dict(self._key_uses)
        start = await super().begin_turn_once(tenant, request, claim_ttl_ms=claim_ttl_ms)
        after, self._key_uses = self._key_uses, before
        await asyncio.sleep(0)
        self._key_uses = after
        return start


# ---- Spending ----


class LooksThenSpends(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        free = Spend([replace(draw, amount=0) for draw in spend.draws])
        looked = await super().spend(tenant, free)
        await asyncio.sleep(0)
        if looked.refusal is not None:
            return looked
        return await super().spend(tenant, replace(spend, draws=[replace(draw, at_least=0) for draw in spend.draws]))


class ForgetsDebts(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        spent = await super().spend(tenant, spend)
        buckets = self._accounts._accounts[tenant].buckets
        buckets |= {name: replace(bucket, level=max(bucket.level, 0)) for name, bucket in buckets.items()}
        return spent


class CountsRepetitions(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        await super().spend(tenant, replace(spend, hold=None))
        return await super().spend(tenant, replace(spend, draws=()))


class NeverGivesPlacesBack(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        return await super().spend(tenant, replace(spend, release=()))


class LetsPlacesLast(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        hold = replace(spend.hold, ttl_ms=10**9) if spend.hold else None
        return await super().spend(tenant, replace(spend, hold=hold))


class CountsForAllTenants(MemoryBackend):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        return await super().spend("everybody", spend)


# ---- Sweeping ----


class SweepsForEverybody(MemoryBackend):
    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        swept = [await super(SweepsForEverybody, self).sweep(each, limit=limit) for each in await self.tenants()]
        return next(iter(swept), Sweeping())


class SweepsNothing(MemoryBackend):
    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        await self.ready()
        return Sweeping()
