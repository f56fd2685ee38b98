"""The store from afar: the same operations, answers and errors as `StoreService`, over gRPC.

    async with StoreClient("store:50051") as store:
        record = await store.get("default", response_id)

Needs the base install only. What the service would refuse without looking at its data is refused here before it is
sent, by the same rules: the wire has no negative counts and no difference between an empty id and none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from antiphon_core import limits
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    ItemPage,
    Lease,
    Order,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import STORE
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules, wire
from antiphon_store.conversations.client import ConversationCalls
from antiphon_store.event_logs.append_queue import AppendQueue
from antiphon_store.event_logs.client import EventLogCalls
from antiphon_store.event_logs.rules import end_of_log
from antiphon_store.jobs.client import JobCalls
from antiphon_store.lineage.client import LineageCalls
from antiphon_store.retention.client import RetentionCalls
from antiphon_store.spending.client import SpendingCalls


class StoreClient(EventLogCalls, JobCalls, RetentionCalls, ConversationCalls, LineageCalls, SpendingCalls):
    """Implements `antiphon_core.ports.store.ResponseStore`. Made and used inside a running event loop, and closed.

    `endpoint` is a gRPC target: `host:port`, or `dns:///name:port` to spread calls over all replicas. Every call raises
    StoreUnavailable when the store cannot be reached and Timeout when it does not answer in time; a write may have
    happened then, and can be sent again as it is. A store that asks for a token or a certificate gets it from
    `credentials` (SettingsError: a file of theirs will not do); calls raise Unauthenticated or PermissionDenied when it
    does not accept them.
    """

    def __init__(self, endpoint: str, *, credentials: ClientCredentials = ANONYMOUS) -> None:
        self._rpc = RpcClient(endpoint, STORE, unavailable=StoreUnavailable, credentials=credentials)
        self._appends = AppendQueue(self._rpc)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._rpc.close()
        await self._appends.close()

    async def ready(self) -> None:
        await self._rpc.ready()

    # ---- Records ----

    async def put(
        self,
        tenant: str,
        record: Record,
        *,
        precondition: Precondition = NO_PRECONDITION,
        ttl_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_record(record)
        rules.check_precondition(precondition)
        rules.check_ttl(ttl_ms)
        rules.check_key(idempotency_key)
        request = v1.PutRequest(
            record=wire.to_record(record),
            precondition=wire.to_precondition(precondition),
            ttl_ms=ttl_ms or 0,
            idempotency_key=idempotency_key or "",
        )
        answer: v1.PutResponse = await self._call("Put", tenant, request)
        return wire.from_stamp(wire.given(answer.stamp, "stamp"))

    async def get(self, tenant: str, response_id: str) -> Record:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        answer: v1.GetResponse = await self._call("Get", tenant, v1.GetRequest(id=response_id))
        return wire.from_record(wire.given(answer.record, "record"))

    async def delete(self, tenant: str, response_id: str, *, precondition: Precondition = NO_PRECONDITION) -> None:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_precondition(precondition)
        request = v1.DeleteRequest(id=response_id, precondition=wire.to_precondition(precondition))
        await self._call("Delete", tenant, request)

    async def list_items(
        self,
        tenant: str,
        response_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "response_id")
        rules.check_page_limit(limit)
        rules.check_after(after)
        request = v1.ListItemsRequest(
            response_id=response_id, after=after or "", limit=limit, order=wire.to_order(order)
        )
        return wire.from_item_page(await self._call("ListItems", tenant, request))

    # ---- Lineage ----

    async def chain(
        self,
        tenant: str,
        response_id: str,
        *,
        max_depth: int = limits.CHAIN_DEPTH_MAX,
        max_bytes: int = limits.CHAIN_BYTES_MAX,
    ) -> Sequence[Record]:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_chain_bounds(max_depth, max_bytes)
        request = v1.ChainRequest(id=response_id, max_depth=max_depth, max_bytes=max_bytes)
        answer: v1.ChainResponse = await self._call("Chain", tenant, request)
        return [wire.from_record(record) for record in answer.records]

    # ---- Sessions ----

    async def acquire_session(
        self,
        tenant: str,
        session_id: str,
        *,
        holder: str,
        ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Lease:
        rules.check_tenant(tenant)
        rules.check_session_id(session_id, "session_id")
        rules.check_holder(holder)
        rules.check_lease_ttl(ttl_ms)
        rules.check_wait(wait_ms)
        request = v1.AcquireSessionRequest(session_id=session_id, holder=holder, ttl_ms=ttl_ms, wait_ms=wait_ms)
        answer: v1.AcquireSessionResponse = await self._call("AcquireSession", tenant, request)
        return wire.from_lease(wire.given(answer.lease, "lease"))

    async def renew_session(self, tenant: str, fence: Fence, *, ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT) -> Lease:
        rules.check_tenant(tenant)
        rules.check_fence(fence)
        rules.check_lease_ttl(ttl_ms)
        request = v1.RenewSessionRequest(fence=wire.to_fence(fence), ttl_ms=ttl_ms)
        answer: v1.RenewSessionResponse = await self._call("RenewSession", tenant, request)
        return wire.from_lease(wire.given(answer.lease, "lease"))

    async def release_session(self, tenant: str, fence: Fence) -> bool:
        rules.check_tenant(tenant)
        rules.check_fence(fence)
        request = v1.ReleaseSessionRequest(fence=wire.to_fence(fence))
        answer: v1.ReleaseSessionResponse = await self._call("ReleaseSession", tenant, request)
        return answer.released

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        rules.check_tenant(tenant)
        rules.check_session_id(session_id, "session_id")
        request = v1.DescribeSessionRequest(session_id=session_id)
        return wire.from_session(await self._call("DescribeSession", tenant, request))

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        rules.check_tenant(tenant)
        rules.check_turn_request(request)
        return wire.from_turn_start(await self._call("BeginTurn", tenant, wire.to_turn_request(request)))

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_turn_commit(commit)
        if commit.log_end is not None:
            end_of_log(commit.record.id, commit.log_end)
        answer: v1.CommitTurnResponse = await self._call("CommitTurn", tenant, wire.to_turn_commit(commit))
        return wire.from_stamp(wire.given(answer.stamp, "stamp"))

    async def abort_turn(
        self,
        tenant: str,
        fence: Fence | None,
        *,
        idempotency_key: str | None = None,
        response_id: str | None = None,
    ) -> None:
        rules.check_tenant(tenant)
        rules.check_claim(idempotency_key, response_id)
        if fence is not None:
            rules.check_fence(fence)
        request = v1.AbortTurnRequest(
            fence=wire.to_fence(fence), idempotency_key=idempotency_key or "", response_id=response_id or ""
        )
        await self._call("AbortTurn", tenant, request)

    async def _call(self, name: str, tenant: str, request: Any) -> Any:
        return await self._rpc.call(name, request, tenant=tenant)
