"""Lineage's RPCs to the service, one to one; see `antiphon_store.server`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core import limits
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store import wire
from antiphon_store.lineage import wire as lineage_wire


def handlers(service: LineageStore) -> Mapping[str, Handler]:
    rpcs = _Rpcs(service)
    return {
        "BatchGet": rpcs.batch_get,
        "UpdateStatus": rpcs.update_status,
        "List": rpcs.list_responses,
        "ResolveItems": rpcs.resolve_items,
        "Fork": rpcs.fork,
        "Tree": rpcs.tree,
        "Children": rpcs.children,
        "Siblings": rpcs.siblings,
        "Leaves": rpcs.leaves,
    }


class _Rpcs:
    def __init__(self, service: LineageStore) -> None:
        self._service = service

    async def batch_get(self, request: v1.BatchGetRequest, call: Call) -> v1.BatchGetResponse:
        records = await self._service.batch_get(call.tenant, request.ids)
        return v1.BatchGetResponse(records=[wire.to_record(record) for record in records])

    async def update_status(self, request: v1.UpdateStatusRequest, call: Call) -> v1.UpdateStatusResponse:
        stamp = await self._service.update_status(
            call.tenant,
            request.id,
            wire.from_status(request.status, "status"),
            precondition=wire.from_precondition(request.precondition),
        )
        return v1.UpdateStatusResponse(stamp=wire.to_stamp(stamp))

    async def list_responses(self, request: v1.ListRequest, call: Call) -> v1.ListResponse:
        page = await self._service.list_responses(
            call.tenant,
            request.session_id,
            cursor=request.cursor or None,
            limit=request.limit or limits.LIST_ITEMS_DEFAULT,
            order=wire.from_order(request.order),
        )
        return lineage_wire.to_record_page(page)

    async def resolve_items(self, request: v1.ResolveItemsRequest, call: Call) -> v1.ResolveItemsResponse:
        return lineage_wire.to_resolved_items(await self._service.resolve_items(call.tenant, request.item_ids))

    async def fork(self, request: v1.ForkRequest, call: Call) -> v1.ForkResponse:
        source = lineage_wire.from_fork_request(request)
        fork = await self._service.fork(call.tenant, source, new_session_id=request.new_session_id or None)
        return lineage_wire.to_fork(fork)

    async def tree(self, request: v1.TreeRequest, call: Call) -> v1.TreeResponse:
        page = await self._service.tree(
            call.tenant,
            request.id,
            from_root=request.from_root,
            cursor=request.cursor or None,
            max_nodes=request.max_nodes or limits.TREE_NODES_DEFAULT,
        )
        return v1.TreeResponse(nodes=lineage_wire.to_nodes(page), next_cursor=page.next_cursor or "")

    async def children(self, request: v1.ChildrenRequest, call: Call) -> v1.ChildrenResponse:
        page = await self._service.children(
            call.tenant, request.id, cursor=request.cursor or None, limit=request.limit or limits.LIST_ITEMS_DEFAULT
        )
        return v1.ChildrenResponse(nodes=lineage_wire.to_nodes(page), next_cursor=page.next_cursor or "")

    async def siblings(self, request: v1.SiblingsRequest, call: Call) -> v1.SiblingsResponse:
        page = await self._service.siblings(
            call.tenant, request.id, cursor=request.cursor or None, limit=request.limit or limits.LIST_ITEMS_DEFAULT
        )
        return v1.SiblingsResponse(nodes=lineage_wire.to_nodes(page), next_cursor=page.next_cursor or "")

    async def leaves(self, request: v1.LeavesRequest, call: Call) -> v1.LeavesResponse:
        page = await self._service.leaves(
            call.tenant, request.id, cursor=request.cursor or None, limit=request.limit or limits.LIST_ITEMS_DEFAULT
        )
        return v1.LeavesResponse(nodes=lineage_wire.to_nodes(page), next_cursor=page.next_cursor or "")
