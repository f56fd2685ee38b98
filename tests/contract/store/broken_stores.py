"""Stores that break one promise each, in the topics beyond records, leases and turns. Used by test_kit.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from antiphon_core.errors import NotFound, PreviousResponseNotReady
from antiphon_core.limits import SWEEP_ITEMS_DEFAULT
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job, JobDraft, JobPulse
from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItems
from antiphon_core.ports.prompts import Prompt
from antiphon_core.ports.quotas import QuotaAnswer, QuotaRequest
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import (
    Fence,
    History,
    Order,
    Stamp,
    Status,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_store.decisions import keys, quotas
from antiphon_store.decisions.tenant_line import place_id
from antiphon_store.rows.model import QUOTA_TREE, Add, Delete, File, Index, Kind, Ref, Set, Unfile
from antiphon_store.topics.trees import tree_of as tree_of_row
from tests.support.stores import MemoryStore, tree_of

# ---- Turns ----


class ContinuesRunningResponses(MemoryStore):
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        try:
            return await self._inner.begin_turn(tenant, request)
        except PreviousResponseNotReady:
            return TurnStart(History())


class ReadsBeforeItChecks(MemoryStore):
    """Reads the history of a turn before it checks that the previous response has ended."""

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        record = await self.get(tenant, request.previous_response_id or "")
        await asyncio.sleep(0)
        start = await self._inner.begin_turn(tenant, request)
        return replace(start, history=replace(start.history, items=record.input_items))


class GivesApprovalsTwice(MemoryStore):
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        for each in request.consumes:
            name = Ref(Kind.APPROVAL, each.id)
            await self.rows.change(tenant, tree_of(str(request.response_id)), Set(name, {"used_by": None}))
        return await self._inner.begin_turn(tenant, request)


# ---- Lineage ----


class ChangesAnyStatus(MemoryStore):
    async def update_status(self, tenant: str, response_id: str, status: Status, **_options: Any) -> Stamp:
        return await self._inner.update_status(tenant, response_id, status)


class ReversesChildren(MemoryStore):
    async def children(self, tenant: str, response_id: str, **options: Any) -> NodePage:
        found = await self._inner.children(tenant, response_id, **options)
        return replace(found, nodes=found.nodes[::-1])


class ListsInOneOrder(MemoryStore):
    async def list_responses(self, tenant: str, session_id: str, **options: Any) -> RecordPage:
        return await self._inner.list_responses(tenant, session_id, **options | {"order": Order.ASCENDING})


class FindsItemsInAnyOrder(MemoryStore):
    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        found = await self._inner.resolve_items(tenant, item_ids)
        return replace(found, items=found.items[::-1])


class ForksTheHead(MemoryStore):
    """Forks the head of the session, whichever response the request names."""

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        head_only = replace(source, up_to_response_id=None) if source.session_id else source
        return await self._inner.fork(tenant, head_only, new_session_id=new_session_id)


class ForksAnew(MemoryStore):
    """Repeats a fork from its source's present state instead of returning the first fork."""

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        name = Ref(Kind.SESSION, new_session_id or "")
        await self.rows.change(tenant, tree_of(name.id), Set(name, {"source": None, "head": None}))
        return await self._inner.fork(tenant, source, new_session_id=new_session_id)


# ---- Event logs ----


class AppendsAnywhere(MemoryStore):
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        log = await self.rows.row(tenant, tree_of(append.response_id), Kind.LOG, append.response_id)
        position = log.fields["next"] if log is not None else 0
        return await self._inner.append_events(tenant, replace(append, expected_position=position), fence=fence)


class NeverClosesLogs(MemoryStore):
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        return await self._inner.append_events(tenant, replace(append, terminal=False), fence=fence)


class ForgetsTheLastEvents(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        return await self._inner.commit_turn(tenant, replace(commit, log_frames=None))


class ForgetsTheJobOfATurn(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        return await self._inner.commit_turn(tenant, replace(commit, job=None))


class QueuesJobsOfRejectedTurns(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        if commit.job is not None:
            await self.enqueue_job(tenant, JobDraft(commit.record.id, DISPATCH_QUEUE, commit.job.payload))
        return await self._inner.commit_turn(tenant, commit)


class NeverListsTheTenant(MemoryStore):
    """Removes the tenant from the line of the workers after the commit."""

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        stamp = await self._inner.commit_turn(tenant, commit)
        place = Unfile(Index.QUEUE, DISPATCH_QUEUE, place_id(tenant, 0))
        await self.rows.change(*tree_of_row(DISPATCH_TENANT, tenant), place, Delete(Ref(Kind.LINE, tenant)))
        return stamp


# ---- Jobs ----


class GivesJobsTwice(MemoryStore):
    async def claim_job(self, tenant: str, queues: Sequence[str], **options: Any) -> Job | None:
        claimed = await self._inner.claim_job(tenant, queues, **options)
        if claimed is not None:
            free = Set(Ref(Kind.JOB, claimed.id), {"holder": "", "lease_until": 0, "attempts": Add(-1)})
            await self.rows.change(tenant, tree_of(claimed.id), free, File(Index.QUEUE, claimed.queue, claimed.id))
        return claimed


class HidesCancellation(MemoryStore):
    async def heartbeat_job(self, tenant: str, fence: Fence, **options: Any) -> JobPulse:
        pulse = await self._inner.heartbeat_job(tenant, fence, **options)
        return replace(pulse, cancel_requested=False)


# ---- Conversations ----


class AddsTwice(MemoryStore):
    additions = 0

    async def add_conversation_items(self, tenant: str, conversation_id: str, items: bytes, **options: Any) -> bytes:
        self.additions += 1
        key = {"idempotency_key": f"key {self.additions}"}
        return await self._inner.add_conversation_items(tenant, conversation_id, items, **options | key)


class KeepsRemovedItems(MemoryStore):
    async def delete_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        return await self._inner.get_conversation(tenant, conversation_id)


class AddsDuringTurns(MemoryStore):
    async def add_conversation_items(self, tenant: str, conversation_id: str, items: bytes, **options: Any) -> bytes:
        if await self.rows.row(tenant, tree_of(conversation_id), Kind.SESSION, conversation_id) is not None:
            ended = Set(Ref(Kind.SESSION, conversation_id), {"lease_until": 0})
            await self.rows.change(tenant, tree_of(conversation_id), ended)
        return await self._inner.add_conversation_items(tenant, conversation_id, items, **options)


# ---- Prompts ----


class ChangesVersions(MemoryStore):
    async def put_prompt(self, tenant: str, prompt_id: str, version: int, content: bytes) -> Prompt:
        with suppress(NotFound):
            if (await self._inner.get_prompt(tenant, prompt_id)).version >= version:
                await self._inner.delete_prompt(tenant, prompt_id)
        return await self._inner.put_prompt(tenant, prompt_id, version, content)


class KeepsDeletedPrompts(MemoryStore):
    async def delete_prompt(self, tenant: str, prompt_id: str) -> None:
        await self._inner.get_prompt(tenant, prompt_id)


# ---- Idempotency keys ----


class ForgetsResults(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        return await self._inner.commit_turn(tenant, replace(commit, idempotency_key=None))


class ClaimsInTwoSteps(MemoryStore):
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        key = request.idempotency_key or ""
        tree = keys.partition_of(tenant, key).tree
        found = await self.rows.row(tenant, tree, Kind.KEY, key)
        await asyncio.sleep(0)
        if found is None:
            await self.rows.change(tenant, tree, Delete(Ref(Kind.KEY, key)))
        return await self._inner.begin_turn(tenant, request)


# ---- Quotas ----


class ChecksThenDraws(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        free = QuotaRequest([replace(draw, amount=0) for draw in quota_request.draws])
        looked = await self._inner.take_quota(tenant, free)
        await asyncio.sleep(0)
        if looked.shortage is not None:
            return looked
        draws = [replace(draw, at_least=0) for draw in quota_request.draws]
        return await self._inner.take_quota(tenant, replace(quota_request, draws=draws))


class ForgetsDebts(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        answer = await self._inner.take_quota(tenant, quota_request)
        row = await self.rows.row(tenant, QUOTA_TREE, *quotas.ROW)
        assert row is not None
        buckets = {name: [max(level, 0), *rest] for name, (level, *rest) in row.fields["buckets"].items()}
        await self.rows.change(tenant, QUOTA_TREE, Set(quotas.ROW, {"buckets": buckets}))
        return answer


class CountsRepeatedHolds(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        await self._inner.take_quota(tenant, replace(quota_request, hold=None))
        return await self._inner.take_quota(tenant, replace(quota_request, draws=()))


class NeverReleasesSlots(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        return await self._inner.take_quota(tenant, replace(quota_request, release=()))


class NeverExpiresSlots(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        hold = replace(quota_request.hold, ttl_ms=10**9) if quota_request.hold else None
        return await self._inner.take_quota(tenant, replace(quota_request, hold=hold))


class SharesQuotasOfTenants(MemoryStore):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        return await self._inner.take_quota("everybody", quota_request)


# ---- Sweeping ----


class SweepsAllTenants(MemoryStore):
    async def sweep(self, tenant: str, *, limit: int = SWEEP_ITEMS_DEFAULT) -> Sweeping:
        swept = [await self._inner.sweep(each, limit=limit) for each in await self.tenants()]
        return next(iter(swept), Sweeping())


class SweepsNothing(MemoryStore):
    async def sweep(self, tenant: str, *, limit: int = SWEEP_ITEMS_DEFAULT) -> Sweeping:
        await self.ready()
        return Sweeping()
