"""Pages of the nodes of a tree. A page begins where the page before ended, in an index that has the nodes in order.

    tree              LEVEL, by depth and creation time
    leaves            CREATED, by creation time
    children          CHILDREN, by creation time

A page reads more nodes than it shows: the children of those that it shows, unreadable ones, and those of other parts of
the tree. It ends after `scan_nodes_max` of them, and is then shorter than the caller asked for, perhaps empty, but has
a cursor. A small part of a tree is read by going down from its top instead.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from antiphon_core import limits, offload
from antiphon_core.ports.lineage import Node, NodePage
from antiphon_store import cursors
from antiphon_store.cursors import Position
from antiphon_store.decisions import lineage, nodes, tree_pages
from antiphon_store.rows.model import Entry, Index, Partition, Payload, Span, level_id, named_node
from antiphon_store.topics.item_lookups import ItemLookups
from antiphon_store.topics.trees import tree_of

NODE_WORK_BYTES = 256  # the work to sort one node into a page, in bytes of JSON


class Part(NamedTuple):
    """The part of a tree below and with `top_id`. `is_whole`: it has all nodes of the partition."""

    partition: Partition
    top_id: str
    depth: int
    is_whole: bool


class _Chosen(NamedTuple):
    """The nodes of a page among those that were read, and the number of further nodes that this took to read.
    `stop_at`: the node before which choosing stopped, because that number was too large."""

    nodes: Sequence[Node]
    read_count: int = 0
    stop_at: str | None = None


class _Found(NamedTuple):
    """Nodes for a page, maybe too many. `rest`: the position behind which there may be more; None: there are none."""

    nodes: list[Node]
    rest: Position | None


_Choose = Callable[[int, Sequence[Entry]], Awaitable[_Chosen]]


class NodePages(ItemLookups):
    """Reads pages of nodes."""

    part_nodes_max = limits.TREE_PART_NODES_MAX
    scan_nodes_max = limits.TREE_SCAN_NODES_MAX
    children_counted_max = limits.TREE_CHILDREN_NODES_MAX
    read_nodes_max = 1_000
    """By one call of the backend: a few milliseconds, in which it may serve no other."""

    @asynccontextmanager
    async def _own_line(self, tenant: str) -> AsyncIterator[None]:
        """Lets a tenant read one page at a time in this process. Reads of 32 pages at once kept those of other tenants
        waiting for more than a second, in which the edge took the store for dead."""
        lock = self._page_locks.setdefault(tenant, asyncio.Lock())
        async with lock:
            yield

    async def _readable(self, tenant: str, response_id: str) -> Mapping[str, Any]:
        """The fields of a readable response. ResponseNotFound."""
        read = partial(lineage.readable_fields, response_id=response_id)
        return await self._bare.of_response(tenant, response_id, read, only_reads=True)

    async def _part_of(self, tenant: str, response_id: str, *, from_root: bool) -> Part:
        """The part below a response, or the tree that it is in. ResponseNotFound.

        A partition may have several trees: a session whose responses are all deleted begins anew."""
        partition = tree_of(tenant, response_id)
        depth = (await self._readable(tenant, response_id))["depth"]
        _, first = await self._rows.page(partition, Index.LEVEL, "", Span(2))
        is_one_tree = len(first) < 2 or first[1].at > 0
        if depth == 0 or not from_root:
            return Part(partition, response_id, depth, is_one_tree and depth == 0)
        if is_one_tree:
            return Part(partition, named_node(first[0].id), 0, is_whole=True)
        root_id = (await self._rows.ancestors(partition, [response_id], depth=0))[response_id]
        return Part(partition, root_id, 0, is_whole=False)

    async def _levels(self, part: Part, after: Position | None, limit: int, question: Sequence[str]) -> NodePage:
        """A page of the nodes that are readable or have a readable node below."""
        if (small := await self._small_part(part)) is not None:
            return _page(question, _Found(await _cut(tree_pages.tree, small, after=after, limit=limit), None), limit)
        start = (after.depth, level_id(after.created_at_ms, after.id)) if after is not None else (part.depth, "")
        found = await self._scan((part.partition, Index.LEVEL, ""), start, partial(self._show_nodes, part), limit)
        return await self._counted_page(part.partition, found, limit, question)

    async def _leaves(self, part: Part, after: Position | None, limit: int, question: Sequence[str]) -> NodePage:
        """A page of the readable nodes below the top that have no readable node below them."""
        if (small := await self._small_part(part)) is not None:
            leaves = partial(tree_pages.leaves, below=part.top_id)
            return _page(question, _Found(await _cut(leaves, small, after=after, limit=limit), None), limit)
        start = (after.created_at_ms, after.id) if after is not None else None
        found = await self._scan((part.partition, Index.CREATED, ""), start, partial(self._ends, part), limit)
        return _page(question, found, limit)

    async def _children(
        self,
        partition: Partition,
        parent_id: str,
        besides: str,
        after: Position | None,
        limit: int,
        question: Sequence[str],
    ) -> NodePage:
        """A page of the readable children of a node."""

        async def choose(now_ms: int, entries: Sequence[Entry]) -> _Chosen:
            left = [each for each in entries if each.id != besides and nodes.is_readable(each.row, now_ms)]
            return _Chosen([lineage.tree_node(each, now_ms) for each in left])

        start = (after.created_at_ms, after.id) if after is not None else None
        found = await self._scan((partition, Index.CHILDREN, parent_id), start, choose, limit)
        return await self._counted_page(partition, found, limit, question)

    # ---- Which nodes a page has ----

    async def _small_part(self, part: Part) -> Sequence[Node] | None:
        """All nodes of a small part; None: it is large, or the whole tree, which has nothing to go past."""
        if part.is_whole:
            return None
        now_ms, found = await self._rows.subtree(part.partition, [part.top_id], max_nodes=self.part_nodes_max + 1)
        if len(found) > self.part_nodes_max:
            return None
        return await _tree_nodes(found, now_ms)

    async def _scan(
        self, listed: tuple[Partition, Index, str], after: tuple[int, str] | None, choose: _Choose, limit: int
    ) -> _Found:
        """Reads an index behind a place until `choose` has chosen more than `limit` nodes."""
        index, found, read_count, size = listed[1], list[Node](), 0, limit + 1
        while True:
            size = min(size, self.read_nodes_max)
            now_ms, entries = await self._rows.page(*listed, Span(size, after), payload=Payload.NONE)
            named = [each._replace(id=named_node(each.id)) for each in entries if each.row is not None]
            chosen = await choose(now_ms, named)
            found += chosen.nodes
            read_count += len(entries) + chosen.read_count
            if len(entries) < size and chosen.stop_at is None:
                return _Found(found, None)
            entries = list(takewhile(lambda each: named_node(each.id) != chosen.stop_at, entries))  # noqa: B023
            after = entries[-1].at, entries[-1].id
            if len(found) > limit or read_count >= self.scan_nodes_max:
                return _Found(found, _position(index, entries[-1]))
            size *= 2

    async def _show_nodes(self, part: Part, now_ms: int, entries: Sequence[Entry]) -> _Chosen:
        inside = await self._inside(part, entries)
        unreadable = [each.id for each in inside if not nodes.is_readable(each.row, now_ms)]
        connected, read_count, stop_at = await self._find_connected(part.partition, unreadable)
        hidden = set(unreadable) - connected
        return await _choose([each for each in inside if each.id not in hidden], now_ms, read_count, stop_at, inside)

    async def _ends(self, part: Part, now_ms: int, entries: Sequence[Entry]) -> _Chosen:
        readable = [each for each in entries if nodes.is_readable(each.row, now_ms) and each.id != part.top_id]
        inside = await self._inside(part, readable)
        connected, read_count, stop_at = await self._find_connected(part.partition, [each.id for each in inside])
        return await _choose([each for each in inside if each.id not in connected], now_ms, read_count, stop_at, inside)

    async def _inside(self, part: Part, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of the nodes that are in the part."""
        if part.is_whole:
            return entries
        top_of = await self._rows.ancestors(part.partition, [each.id for each in entries], depth=part.depth)
        return [each for each in entries if top_of.get(each.id) == part.top_id]

    async def _find_connected(self, partition: Partition, node_ids: Sequence[str]) -> tuple[set[str], int, str | None]:
        """Those of the nodes that have a readable node below them, the number of nodes that were read, and the first
        node that was not looked at any more because those are enough for a page. A node with
        more than `read_nodes_max` unreadable nodes below it counts as connected if none of those is followed by a
        readable one so far: it takes too long to see."""
        connected: set[str] = set()
        with_unreadable: set[str] = set()
        rest, read_count = list(node_ids), 0
        while rest and read_count < self.scan_nodes_max:
            now_ms, found = await self._rows.children(partition, rest, max_nodes=self.read_nodes_max)
            read_count += len(found)
            for each in found:
                is_readable = nodes.is_readable(each.row, now_ms)
                (connected if is_readable else with_unreadable).add(_parent_of(each))
            is_all = len(found) < self.read_nodes_max
            rest = [] if is_all else rest[max(1, rest.index(_parent_of(found[-1]))) :]
        unsure = sorted(with_unreadable - connected)
        if unsure:
            now_ms, below = await self._rows.subtree(partition, unsure, max_nodes=self.read_nodes_max)
            read_count += len(below)
            is_cut_off = len(below) == self.read_nodes_max
            connected |= set(unsure) if is_cut_off else tree_pages.find_connected(await _tree_nodes(below, now_ms))
        return connected, read_count, rest[0] if rest else None

    # ---- Counts of children ----

    async def _counted_page(self, partition: Partition, found: _Found, limit: int, question: Sequence[str]) -> NodePage:
        """A page with the numbers of readable children. Nodes whose children are too many to count for this page are
        left to the next page, except the first one."""
        shown = found.nodes[:limit]
        if not shown:
            return _page(question, found, limit)
        most, ids = self.children_counted_max, [each.id for each in shown]
        now_ms, children = await self._rows.children(partition, ids, max_nodes=most)
        counts = Counter(_parent_of(each) for each in children if nodes.is_readable(each.row, now_ms))
        complete = len(ids) if len(children) < most else max(1, ids.index(_parent_of(children[-1])))
        counted = [replace(each, child_count=counts[each.id]) for each in shown[:complete]]
        rest = found.nodes[complete:]
        return _page(question, _Found([*counted, *rest], found.rest), complete if rest else limit)


def _page(question: Sequence[str], found: _Found, limit: int) -> NodePage:
    shown = found.nodes[:limit]
    last = shown[-1] if len(found.nodes) > limit else found.rest
    return NodePage(shown, cursors.encode(question, last) if last is not None else None)


def _position(index: Index, entry: Entry) -> Position:
    """The position of an entry that may not be shown. Only LEVEL sorts by depth."""
    if index is not Index.LEVEL:
        return Position(0, entry.at, entry.id)
    created_ms, _, node_id = entry.id.partition("/")
    return Position(entry.at, int(created_ms), node_id)


def _parent_of(entry: Entry) -> str:
    assert entry.row is not None  # noqa: S101 - `children` leaves out entries without nodes
    return str(entry.row.fields["parent"])


async def _cut(page: Callable[..., list[Node]], part: Sequence[Node], **arguments: Any) -> list[Node]:
    return await offload.run(partial(page, part, **arguments), size_bytes=NODE_WORK_BYTES * len(part))


async def _choose(
    shown: Sequence[Entry], now_ms: int, read_count: int, stop_at: str | None, looked_at: Sequence[Entry]
) -> _Chosen:
    """Chooses those of the shown nodes that come before `stop_at`."""
    before = {each.id for each in takewhile(lambda each: each.id != stop_at, looked_at)}
    return _Chosen(await _tree_nodes([each for each in shown if each.id in before], now_ms), read_count, stop_at)


async def _tree_nodes(entries: Sequence[Entry], now_ms: int) -> list[Node]:
    def read() -> list[Node]:
        return [lineage.tree_node(each, now_ms) for each in entries]

    return await offload.run(read, size_bytes=NODE_WORK_BYTES * len(entries))
