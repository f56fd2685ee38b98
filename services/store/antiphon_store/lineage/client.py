"""Lineage from afar; see `antiphon_store.client`. A fork's new session is named here, before it is sent: the channel
may send it twice, and both times it must be the same fork."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core import limits
from antiphon_core.ids import RandomIds
from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItems
from antiphon_core.ports.store import NO_PRECONDITION, Order, Precondition, Record, Stamp, Status
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules, wire
from antiphon_store.lineage import rules as lineage_rules
from antiphon_store.lineage import wire as lineage_wire

_IDS = RandomIds()


class LineageCalls:
    """Implements `antiphon_core.ports.lineage.LineageStore`. Part of StoreClient, which brings `_call`."""

    async def batch_get(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        rules.check_tenant(tenant)
        lineage_rules.check_ids(ids)
        answer: v1.BatchGetResponse = await self._call("BatchGet", tenant, v1.BatchGetRequest(ids=list(ids)))
        return [wire.from_record(record) for record in answer.records]

    async def update_status(
        self, tenant: str, response_id: str, status: Status, *, precondition: Precondition = NO_PRECONDITION
    ) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_precondition(precondition)
        request = v1.UpdateStatusRequest(
            id=response_id, status=lineage_wire.to_status(status), precondition=wire.to_precondition(precondition)
        )
        answer: v1.UpdateStatusResponse = await self._call("UpdateStatus", tenant, request)
        return wire.from_stamp(wire.given(answer.stamp, "stamp"))

    async def list_responses(
        self,
        tenant: str,
        session_id: str,
        *,
        cursor: str | None = None,
        limit: int = limits.LIST_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> RecordPage:
        rules.check_tenant(tenant)
        rules.check_session_id(session_id, "session_id")
        lineage_rules.check_cursor(cursor)
        lineage_rules.check_limit(limit)
        request = v1.ListRequest(session_id=session_id, cursor=cursor or "", limit=limit, order=wire.to_order(order))
        return lineage_wire.from_record_page(await self._call("List", tenant, request))

    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        rules.check_tenant(tenant)
        lineage_rules.check_item_ids(item_ids)
        request = v1.ResolveItemsRequest(item_ids=list(item_ids))
        return lineage_wire.from_resolved_items(await self._call("ResolveItems", tenant, request))

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        rules.check_tenant(tenant)
        lineage_rules.check_fork(source, new_session_id)
        session_id = new_session_id or lineage_rules.chosen_session_id(source, _IDS)
        request = lineage_wire.to_fork_request(source, session_id)
        return lineage_wire.from_fork(await self._call("Fork", tenant, request))

    async def tree(
        self,
        tenant: str,
        response_id: str,
        *,
        from_root: bool = False,
        cursor: str | None = None,
        max_nodes: int = limits.TREE_NODES_DEFAULT,
    ) -> NodePage:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        lineage_rules.check_cursor(cursor)
        lineage_rules.check_max_nodes(max_nodes)
        request = v1.TreeRequest(id=response_id, from_root=from_root, max_nodes=max_nodes, cursor=cursor or "")
        return lineage_wire.from_node_page(await self._call("Tree", tenant, request))

    async def children(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        request = v1.ChildrenRequest(id=response_id, cursor=cursor or "", limit=limit)
        return lineage_wire.from_node_page(await self._call("Children", tenant, request))

    async def siblings(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        request = v1.SiblingsRequest(id=response_id, cursor=cursor or "", limit=limit)
        return lineage_wire.from_node_page(await self._call("Siblings", tenant, request))

    async def leaves(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        request = v1.LeavesRequest(id=response_id, cursor=cursor or "", limit=limit)
        return lineage_wire.from_node_page(await self._call("Leaves", tenant, request))

    async def _call(self, name: str, tenant: str, request: Any) -> Any:
        raise NotImplementedError
