"""Lineage as callers see it, over any backend: rules, cursors and what is shown of a tree. One atom for each call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from antiphon_core import limits
from antiphon_core.ids import Ids
from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItems, TreeNode
from antiphon_core.ports.store import NO_PRECONDITION, Order, Precondition, Record, Stamp, Status
from antiphon_store import cursors, rules
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.lineage import rules as lineage_rules
from antiphon_store.lineage import trees
from antiphon_store.values import Position, Slice


class LineageOperations:
    """Implements `antiphon_core.ports.lineage.LineageStore`. Part of StoreService, which brings the backend."""

    _backend: StoreEngine
    _ids: Ids

    async def batch_get(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        rules.check_tenant(tenant)
        lineage_rules.check_ids(ids)
        return await self._backend.fetch_many(tenant, list(dict.fromkeys(ids)), max_bytes=limits.PAGE_BYTES_MAX)

    async def update_status(
        self, tenant: str, response_id: str, status: Status, *, precondition: Precondition = NO_PRECONDITION
    ) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_precondition(precondition)
        return await self._backend.change_status(tenant, response_id, status, precondition)

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
        question = (tenant, "List", session_id, order.value)
        found = await self._backend.session_records(
            tenant,
            session_id,
            after=cursors.decode(question, cursor),
            limit=limit,
            order=order,
            max_bytes=limits.PAGE_BYTES_MAX,
        )
        last = _position(found.values[-1]) if found.has_more else None
        return RecordPage(found.values, cursors.encode(question, last) if last else None)

    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        rules.check_tenant(tenant)
        lineage_rules.check_item_ids(item_ids)
        wanted = list(dict.fromkeys(item_ids))
        found = await self._backend.find_items(tenant, wanted, max_bytes=limits.PAGE_BYTES_MAX)
        found_ids = {item.id for item in found}
        return ResolvedItems(found, tuple(item_id for item_id in wanted if item_id not in found_ids))

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        rules.check_tenant(tenant)
        lineage_rules.check_fork(source, new_session_id)
        session_id = new_session_id or lineage_rules.chosen_session_id(source, self._ids)
        return await self._backend.fork(tenant, source, session_id)

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
        question = (tenant, "Tree", response_id, str(from_root))
        after = cursors.decode(question, cursor)
        twigs = await self._backend.subtree(
            tenant, response_id, from_root=from_root, max_nodes=limits.TREE_WALK_NODES_MAX
        )
        shown = await asyncio.to_thread(trees.tree, twigs, after=after, limit=max_nodes)
        return _page(question, shown)

    async def leaves(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        question = (tenant, "Leaves", response_id)
        after = cursors.decode(question, cursor)
        twigs = await self._backend.subtree(tenant, response_id, from_root=False, max_nodes=limits.TREE_WALK_NODES_MAX)
        return _page(
            question, await asyncio.to_thread(trees.leaves, twigs, below=response_id, after=after, limit=limit)
        )

    async def children(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        question = (tenant, "Children", response_id)
        after = cursors.decode(question, cursor)
        return _page(question, await self._backend.children(tenant, response_id, after=after, limit=limit))

    async def siblings(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        lineage_rules.check_list(tenant, response_id, cursor, limit)
        question = (tenant, "Siblings", response_id)
        after = cursors.decode(question, cursor)
        return _page(question, await self._backend.siblings(tenant, response_id, after=after, limit=limit))


def _position(value: Record | TreeNode) -> Position:
    return Position(value.depth, value.created_at_ms, value.id)


def _page(question: Sequence[str], found: Slice[TreeNode]) -> NodePage:
    last = found.values[-1] if found.has_more else None
    return NodePage(found.values, cursors.encode(question, _position(last)) if last else None)
