"""gRPC to the service, one to one: decode, call, encode. Errors pass; `antiphon_core.rpc` turns them into statuses.

RPCs that are not in the table answer UNIMPLEMENTED with their name, and so do fields that cannot be honoured yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from antiphon_core import limits
from antiphon_core.ports.conversations import ConversationStore
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.ports.jobs import Jobs
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.retention import Retention
from antiphon_core.ports.spending import Spending
from antiphon_core.ports.store import ResponseStore
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store import wire
from antiphon_store.conversations import server as conversations
from antiphon_store.event_logs import server as event_logs
from antiphon_store.jobs import server as jobs
from antiphon_store.lineage import server as lineage
from antiphon_store.retention import server as retention
from antiphon_store.spending import server as spending


class WholeStore(ResponseStore, EventLogs, Jobs, Retention, Spending, ConversationStore, LineageStore, Protocol):
    """Everything that is served."""


def handlers(service: WholeStore) -> Mapping[str, Handler]:
    """What RpcServer.add needs besides the table of methods."""
    rpcs = _Rpcs(service)
    return {
        "Put": rpcs.put,
        "Get": rpcs.get,
        "Delete": rpcs.delete,
        "ListItems": rpcs.list_items,
        "Chain": rpcs.chain,
        "AcquireSession": rpcs.acquire_session,
        "RenewSession": rpcs.renew_session,
        "ReleaseSession": rpcs.release_session,
        "DescribeSession": rpcs.describe_session,
        "BeginTurn": rpcs.begin_turn,
        "CommitTurn": rpcs.commit_turn,
        "AbortTurn": rpcs.abort_turn,
        **event_logs.handlers(service),
        **jobs.handlers(service),
        **retention.handlers(service),
        **spending.handlers(service),
        **conversations.handlers(service),
        **lineage.handlers(service),
    }


class _Rpcs:
    def __init__(self, service: ResponseStore) -> None:
        self._service = service

    async def put(self, request: v1.PutRequest, call: Call) -> v1.PutResponse:
        stamp = await self._service.put(
            call.tenant,
            wire.from_record(wire.given(request.record, "record")),
            precondition=wire.from_precondition(request.precondition),
            ttl_ms=request.ttl_ms or None,
            idempotency_key=request.idempotency_key or None,
        )
        return v1.PutResponse(stamp=wire.to_stamp(stamp))

    async def get(self, request: v1.GetRequest, call: Call) -> v1.GetResponse:
        record = await self._service.get(call.tenant, request.id)
        return v1.GetResponse(record=wire.to_record(record))

    async def delete(self, request: v1.DeleteRequest, call: Call) -> v1.DeleteResponse:
        condition = wire.from_precondition(request.precondition)
        await self._service.delete(call.tenant, request.id, precondition=condition)
        return v1.DeleteResponse()

    async def list_items(self, request: v1.ListItemsRequest, call: Call) -> v1.ListItemsResponse:
        page = await self._service.list_items(
            call.tenant,
            request.response_id,
            after=request.after or None,
            limit=request.limit or limits.PAGE_ITEMS_DEFAULT,
            order=wire.from_order(request.order),
        )
        return wire.to_item_page(page)

    async def chain(self, request: v1.ChainRequest, call: Call) -> v1.ChainResponse:
        records = await self._service.chain(
            call.tenant,
            request.id,
            max_depth=request.max_depth or limits.CHAIN_DEPTH_MAX,
            max_bytes=request.max_bytes or limits.CHAIN_BYTES_MAX,
        )
        return v1.ChainResponse(records=[wire.to_record(record) for record in records])

    async def acquire_session(self, request: v1.AcquireSessionRequest, call: Call) -> v1.AcquireSessionResponse:
        lease = await self._service.acquire_session(
            call.tenant,
            request.session_id,
            holder=request.holder,
            ttl_ms=request.ttl_ms or limits.LEASE_TTL_MS_DEFAULT,
            wait_ms=request.wait_ms,
        )
        return v1.AcquireSessionResponse(lease=wire.to_lease(lease))

    async def renew_session(self, request: v1.RenewSessionRequest, call: Call) -> v1.RenewSessionResponse:
        fence = wire.from_fence(wire.given(request.fence, "fence"))
        lease = await self._service.renew_session(
            call.tenant, fence, ttl_ms=request.ttl_ms or limits.LEASE_TTL_MS_DEFAULT
        )
        return v1.RenewSessionResponse(lease=wire.to_lease(lease))

    async def release_session(self, request: v1.ReleaseSessionRequest, call: Call) -> v1.ReleaseSessionResponse:
        fence = wire.from_fence(wire.given(request.fence, "fence"))
        return v1.ReleaseSessionResponse(released=await self._service.release_session(call.tenant, fence))

    async def describe_session(self, request: v1.DescribeSessionRequest, call: Call) -> v1.DescribeSessionResponse:
        return wire.to_session(await self._service.describe_session(call.tenant, request.session_id))

    async def begin_turn(self, request: v1.BeginTurnRequest, call: Call) -> v1.BeginTurnResponse:
        start = await self._service.begin_turn(call.tenant, wire.from_turn_request(request))
        return wire.to_turn_start(start)

    async def commit_turn(self, request: v1.CommitTurnRequest, call: Call) -> v1.CommitTurnResponse:
        stamp = await self._service.commit_turn(call.tenant, wire.from_turn_commit(request))
        return v1.CommitTurnResponse(stamp=wire.to_stamp(stamp))

    async def abort_turn(self, request: v1.AbortTurnRequest, call: Call) -> v1.AbortTurnResponse:
        fence = wire.from_fence(request.fence) if request.fence is not None else None
        await self._service.abort_turn(
            call.tenant,
            fence,
            idempotency_key=request.idempotency_key or None,
            response_id=request.response_id or None,
        )
        return v1.AbortTurnResponse()
