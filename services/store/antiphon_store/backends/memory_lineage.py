"""Lineage on the memory engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.store import Fence, Order, Precondition, Record, Stamp, Status
from antiphon_store.backends import admission, forking
from antiphon_store.backends import status as statuses
from antiphon_store.backends.item_search import pick
from antiphon_store.backends.leases import SessionState
from antiphon_store.backends.memory_catalogue import Catalogue
from antiphon_store.backends.roles.lineage import Position, Slice, Twig
from antiphon_store.backends.slices import ByteBudget, require_nodes, size_bytes, take_records

if TYPE_CHECKING:
    from antiphon_store.backends.memory import _Node

_Key = tuple[str, str]  # tenant, id


class _Memory(Protocol):
    """What the engine has for its topics."""

    _nodes: dict[_Key, _Node]
    _forks: dict[_Key, tuple[ForkSource, Fork]]
    _removed_items: dict[_Key, set[str]]
    _catalogue: Catalogue

    def _now_ms(self) -> int: ...

    def _session(self, tenant: str, session_id: str) -> SessionState: ...

    def _readable(self, tenant: str, response_id: str, now_ms: int) -> _Node | None: ...

    def _require(self, tenant: str, response_id: str, now_ms: int) -> _Node: ...

    def _require_fence(self, tenant: str, fence: Fence | None, now_ms: int) -> None: ...

    def _head(self, tenant: str, state: SessionState, now_ms: int) -> _Node | None: ...

    def _move_head(self, tenant: str, session_id: str, state: SessionState, head_id: str, now_ms: int) -> None: ...


class MemoryLineage:
    """Implements `roles.lineage.LineageAtoms` for MemoryBackend."""

    async def fetch_many(self: _Memory, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        now_ms = self._now_ms()
        budget = ByteBudget(max_bytes, field="ids")
        found = [node.record for node in (self._readable(tenant, each, now_ms) for each in ids) if node]
        for record in found:
            budget.use(size_bytes(record))
        return found

    async def change_status(
        self: _Memory, tenant: str, response_id: str, status: Status, precondition: Precondition
    ) -> Stamp:
        now_ms = self._now_ms()
        node = self._require(tenant, response_id, now_ms)
        if statuses.is_changed(node.record, status, precondition):
            return admission.stamp_of(node.record)
        self._require_fence(tenant, precondition.fence, now_ms)
        admission.require_precondition(node.record, precondition)
        node.record = statuses.changed(node.record, status, now_ms)
        return admission.stamp_of(node.record)

    async def session_records(
        self: _Memory, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        now_ms = self._now_ms()
        keys = self._catalogue.of_session(tenant, session_id)
        records = [node.record for node in (self._readable(*key, now_ms) for key in keys) if node]
        line = sorted(records, key=_by_birth_and_depth, reverse=order is Order.DESCENDING)
        return take_records(_after(line, after, order=order), limit=limit, max_bytes=max_bytes)

    async def find_items(
        self: _Memory, tenant: str, item_ids: Sequence[str], *, max_bytes: int
    ) -> Sequence[ResolvedItem]:
        now_ms = self._now_ms()
        budget = ByteBudget(max_bytes, field="item_ids")
        found = []
        for item_id in item_ids:
            keys = self._catalogue.of_item(tenant, item_id)
            records = [self._nodes[key].record for key in keys if _is_found(self, self._nodes[key], item_id, now_ms)]
            if records:
                owner = min(records, key=_by_birth)
                item = pick(owner.id, (owner.input_items, owner.output_items), {item_id})[item_id]
                budget.use(len(item.item))
                found.append(item)
        return found

    async def fork(self: _Memory, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        now_ms = self._now_ms()
        key = (tenant, new_session_id)
        if key in self._forks and self._forks[key][0] == source:
            return self._forks[key][1]
        head_id = _source_head(self, tenant, source, now_ms)
        forking.require_kinship(new_session_id, head_id)
        state = self._session(tenant, new_session_id)
        head = self._head(tenant, state, now_ms)
        fork = Fork(new_session_id, head_id)
        if head is not None and head.record.id == head_id:
            return fork
        forking.require_free(new_session_id, state, head_id=head.record.id if head else None, now_ms=now_ms)
        self._move_head(tenant, new_session_id, state, head_id, now_ms)
        self._forks[key] = (source, fork)
        return fork

    async def subtree(
        self: _Memory, tenant: str, response_id: str, *, from_root: bool, max_nodes: int
    ) -> Sequence[Twig]:
        now_ms = self._now_ms()
        start = self._require(tenant, response_id, now_ms)
        while from_root and start.parent is not None:
            start = start.parent
        twigs = [_twig(node, now_ms) for node in islice(start.subtree(), max_nodes + 1)]
        require_nodes(response_id, len(twigs), max_nodes=max_nodes)
        return twigs

    async def children(
        self: _Memory, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        now_ms = self._now_ms()
        node = self._require(tenant, response_id, now_ms)
        return _slice(node.children.values(), now_ms, after=after, limit=limit)

    async def siblings(
        self: _Memory, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        now_ms = self._now_ms()
        node = self._require(tenant, response_id, now_ms)
        others = (each for each in node.parent.children.values() if each is not node) if node.parent else ()
        return _slice(others, now_ms, after=after, limit=limit)


def _is_found(memory: _Memory, node: _Node, item_id: str, now_ms: int) -> bool:
    """Whether an item that is filed under a node is found there: one that was added by hand as long as it stands in
    the conversation that it was added to."""
    if node.is_readable(now_ms) or node.is_expired(now_ms):
        return node.is_readable(now_ms)
    conversation = (node.key[0], node.record.session_id or "")
    if item_id in memory._removed_items.get(conversation, ()):  # noqa: SLF001 - ours
        return False
    step = memory._head(node.key[0], memory._session(*conversation), now_ms)  # noqa: SLF001 - ours
    while step is not None and step is not node:
        step = step.parent
    return step is node


def _source_head(memory: _Memory, tenant: str, source: ForkSource, now_ms: int) -> str:
    head = made = None
    if source.session_id is not None:
        head = memory._head(tenant, memory._session(tenant, source.session_id), now_ms)  # noqa: SLF001 - ours
    if source.up_to_response_id is not None:
        made = memory._readable(tenant, source.up_to_response_id, now_ms)  # noqa: SLF001 - ours
    return forking.head_of(
        source,
        session_head_id=head.record.id if head else None,
        status=made.record.status if made else None,
        made_in=made.record.session_id if made else None,
    )


def _twig(node: _Node, now_ms: int) -> Twig:
    record = node.record
    return Twig(
        id=record.id,
        parent_id=record.parent_id,
        status=record.status,
        depth=record.depth,
        created_at_ms=record.created_at_ms,
        is_readable=node.is_readable(now_ms),
    )


def _tree_node(node: _Node, now_ms: int) -> TreeNode:
    record = node.record
    return TreeNode(
        id=record.id,
        parent_id=record.parent_id,
        status=record.status,
        depth=record.depth,
        child_count=sum(child.is_readable(now_ms) for child in node.children.values()),
        created_at_ms=record.created_at_ms,
    )


def _slice(nodes: Iterable[_Node], now_ms: int, *, after: Position | None, limit: int) -> Slice[TreeNode]:
    """The readable ones by birth and id."""
    readable = (node for node in nodes if node.is_readable(now_ms))
    start = (after.created_at_ms, after.id) if after else (-1, "")
    rest = (node for node in readable if _by_birth(node.record) > start)
    chosen = nsmallest(limit + 1, rest, key=lambda node: _by_birth(node.record))
    return Slice([_tree_node(node, now_ms) for node in chosen[:limit]], has_more=len(chosen) > limit)


def _by_birth(record: Record) -> tuple[int, str]:
    return record.created_at_ms, record.id


def _by_birth_and_depth(record: Record) -> tuple[int, int, str]:
    return record.created_at_ms, record.depth, record.id


def _after(records: Iterable[Record], end: Position | None, *, order: Order) -> Iterable[Record]:
    """What comes behind the end of the page before."""
    if end is None:
        return records
    last = (end.created_at_ms, end.depth, end.id)
    if order is Order.DESCENDING:
        return (record for record in records if _by_birth_and_depth(record) < last)
    return (record for record in records if _by_birth_and_depth(record) > last)
