"""Lineage as callers see it, over any backend: cursors, and what is shown of a tree. One operation for each call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

from antiphon_core import limits
from antiphon_core.ids import Ids
from antiphon_core.ports.lineage import Fork, ForkSource, LineageStore, NodePage, RecordPage, ResolvedItems, TreeNode
from antiphon_core.ports.store import Order, Record
from antiphon_store import cursors
from antiphon_store.arguments import checked, handed_on
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rules.lineage import chosen_session_id
from antiphon_store.values import Position, Slice

_ListOfNodes = Callable[..., Coroutine[Any, Any, NodePage]]


def _pages(port: _ListOfNodes, operation: str) -> _ListOfNodes:
    """Makes the method of `port` that lists nodes around a response, by an operation of the engine."""

    @checked
    @wraps(port)
    async def pages(
        self: LineageOperations,
        tenant: str,
        response_id: str,
        *,
        cursor: str | None = None,
        limit: int = limits.LIST_ITEMS_DEFAULT,
    ) -> NodePage:
        question = (tenant, operation, response_id)
        after = cursors.decode(question, cursor)
        return _page(question, await getattr(self.engine, operation)(tenant, response_id, after=after, limit=limit))

    return pages


class LineageOperations:
    """Implements `antiphon_core.ports.lineage.LineageStore`. Part of StoreService, which brings the engine."""

    engine: StoreEngine
    _ids: Ids

    batch_get = handed_on(LineageStore.batch_get, "fetch_many")
    children = _pages(LineageStore.children, "children")
    siblings = _pages(LineageStore.siblings, "siblings")
    leaves = _pages(LineageStore.leaves, "leaves")
    update_status = handed_on(LineageStore.update_status, "change_status")

    @checked
    async def list_responses(
        self,
        tenant: str,
        session_id: str,
        *,
        cursor: str | None = None,
        limit: int = limits.LIST_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> RecordPage:
        question = (tenant, "list", session_id, order.value)
        after = cursors.decode(question, cursor)
        found = await self.engine.session_records(tenant, session_id, after=after, limit=limit, order=order)
        return RecordPage(found.values, _next_cursor(question, found))

    @checked
    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        wanted = list(dict.fromkeys(item_ids))
        found = await self.engine.find_items(tenant, wanted)
        found_ids = {item.id for item in found}
        return ResolvedItems(found, tuple(item_id for item_id in wanted if item_id not in found_ids))

    @checked
    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        return await self.engine.fork(tenant, source, new_session_id or chosen_session_id(source, self._ids))

    @checked
    async def tree(
        self,
        tenant: str,
        response_id: str,
        *,
        from_root: bool = False,
        cursor: str | None = None,
        max_nodes: int = limits.TREE_NODES_DEFAULT,
    ) -> NodePage:
        question = (tenant, "tree", response_id, str(from_root))
        after = cursors.decode(question, cursor)
        found = await self.engine.tree(tenant, response_id, from_root=from_root, after=after, limit=max_nodes)
        return _page(question, found)


def _page(question: Sequence[str], found: Slice[TreeNode]) -> NodePage:
    return NodePage(found.values, _next_cursor(question, found))


def _next_cursor(question: Sequence[str], found: Slice[Record] | Slice[TreeNode]) -> str | None:
    """The cursor behind the last value of a page that is not the last one."""
    if not found.has_more:
        return None
    last = found.values[-1]
    return cursors.encode(question, Position(last.depth, last.created_at_ms, last.id))
