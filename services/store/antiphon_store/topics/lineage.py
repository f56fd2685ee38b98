"""Operations on the shape of trees: forks, and pages of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from antiphon_core import limits, offload
from antiphon_core.errors import AlreadyExists, LimitExceeded, SessionLocked
from antiphon_core.ids import new_fork_id, tree_tag
from antiphon_core.ports.lineage import (
    Fork,
    ForkSource,
    LineageStore,
    Node,
    NodePage,
    RecordPage,
)
from antiphon_core.ports.store import Order, Record
from antiphon_store import cursors
from antiphon_store.arguments import implements
from antiphon_store.cursors import Position
from antiphon_store.decisions import forks, lineage, nodes, tree_pages
from antiphon_store.rows.model import Index, Partition, made_id, named_node
from antiphon_store.rows.view import Finish, View
from antiphon_store.rules.values import size_of
from antiphon_store.topics.item_lookups import ItemLookups
from antiphon_store.topics.trees import tree_of

NODE_WORK_BYTES = 256  # the work to sort one node into a page, in bytes of JSON


class LineageOperations(ItemLookups):
    """The operations of `antiphon_core.ports.lineage.LineageStore` on the shape of trees."""

    walk_nodes_max = limits.TREE_WALK_NODES_MAX

    @implements(LineageStore.fork)
    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None) -> Fork:
        """Checks the source and the new session and writes the new session, in one step. A new session whose name
        belongs to another tree gets a pointer after that."""
        from_id = source.up_to_response_id
        session_id = new_session_id or new_fork_id(self._ids, relative=from_id or source.session_id or "")
        there = tree_of(tenant, from_id) if from_id else await self._trees.locate(tenant, source.session_id or "")
        decision = partial(forks.fork, source=source, new_session_id=session_id)
        if tree_of(tenant, session_id) == there:
            return await self._trees.at_home(tenant, session_id, decision)
        if tree_tag(session_id) is not None:
            return await self._trees.run(there, decision)  # it rejects the id after it has checked the source
        return await self._fork_elsewhere(there, session_id, decision)

    @implements(LineageStore.list_responses)
    async def list_responses(
        self, tenant: str, session_id: str, *, cursor: str | None, limit: int, order: Order
    ) -> RecordPage:
        question = (tenant, "list", session_id, order.value)
        after = cursors.decode(question, cursor)
        start = (after.created_at_ms, made_id(after.depth, after.id)) if after is not None else None
        partition = await self._trees.locate(tenant, session_id)
        found: list[Record] = []
        size_bytes = 0
        async for now_ms, entry in self._entries(
            partition, Index.MADE, session_id, start, descending=order is Order.DESCENDING, limit=limit + 1
        ):
            if entry.row is None or not nodes.is_readable(entry.row, now_ms):
                continue
            record = nodes.to_record(named_node(entry.id), entry.row)
            size_bytes += size_of(record)
            if len(found) == limit or (found and size_bytes > self.page_bytes_max):
                return RecordPage(found, cursors.encode(question, found[-1]))
            found.append(record)
        return RecordPage(found)

    @implements(LineageStore.tree)
    async def tree(
        self, tenant: str, response_id: str, *, from_root: bool, cursor: str | None, max_nodes: int
    ) -> NodePage:
        async def find(after: Position | None) -> Sequence[Node]:
            cut = partial(tree_pages.tree, after=after, limit=max_nodes)
            return await self._page_below(tenant, response_id, cut, from_root=from_root)

        return await _page((tenant, "tree", response_id, str(from_root)), find, cursor, max_nodes)

    @implements(LineageStore.leaves)
    async def leaves(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        async def find(after: Position | None) -> Sequence[Node]:
            cut = partial(tree_pages.leaves, below=response_id, after=after, limit=limit)
            return await self._page_below(tenant, response_id, cut, from_root=False)

        return await _page((tenant, "leaves", response_id), find, cursor, limit)

    @implements(LineageStore.children)
    async def children(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        async def find(after: Position | None) -> Sequence[Node]:
            await self.get(tenant, response_id)
            return await self._children_of(tree_of(tenant, response_id), response_id, "", after, limit)

        return await _page((tenant, "children", response_id), find, cursor, limit)

    @implements(LineageStore.siblings)
    async def siblings(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        async def find(after: Position | None) -> Sequence[Node]:
            parent_id = (await self.get(tenant, response_id)).parent_id
            if parent_id is None:
                return []
            return await self._children_of(tree_of(tenant, response_id), parent_id, response_id, after, limit)

        return await _page((tenant, "siblings", response_id), find, cursor, limit)

    async def _fork_elsewhere(
        self, there: Partition, new_session_id: str, decision: Callable[[View], Finish[Fork]]
    ) -> Fork:
        """Forks into a session whose name belongs to another tree. The pointer is written last, because it stays for
        ever; if it cannot be written, the fork is undone."""
        made = await self._trees.run(there, decision)
        require_free = partial(forks.require_unused, session_id=new_session_id)
        try:
            await self._trees.point(there.tenant, new_session_id, there.tree, require_free)
        except (AlreadyExists, SessionLocked):
            await self._trees.run(there, partial(forks.undo, fork=made))
            raise
        return made

    async def _page_below(
        self, tenant: str, response_id: str, cut: Callable[[Sequence[Node]], Sequence[Node]], *, from_root: bool
    ) -> Sequence[Node]:
        """The page that `cut` takes of all nodes that are stored below a response. ResponseNotFound. LimitExceeded."""
        find_root, most = partial(lineage.root_of, response_id=response_id), self.walk_nodes_max
        root_id = await self._trees.of_response(tenant, response_id, find_root, only_reads=True)
        starts = [root_id if from_root else response_id]
        now_ms, found = await self._rows.subtree(tree_of(tenant, response_id), starts, max_nodes=most + 1)
        self._require_within_walk(len(found), response_id)

        def read() -> Sequence[Node]:
            return cut([lineage.tree_node(each, now_ms) for each in found])

        return await offload.run(read, size_bytes=NODE_WORK_BYTES * len(found))

    def _require_within_walk(self, count: int, response_id: str) -> None:
        """LimitExceeded: one page would look at too many responses."""
        most = self.walk_nodes_max
        if count > most:
            raise LimitExceeded(
                f"More than {most} responses are in the tree below '{response_id}'. Ask for a part of it.",
                field="id",
                limit=f"{most} responses",
            )

    async def _children_of(
        self, partition: Partition, parent_id: str, besides: str, after: Position | None, limit: int
    ) -> Sequence[Node]:
        """The readable children after a position, by creation time and id."""
        start = (after.created_at_ms, after.id) if after is not None else None
        chosen: list[Node] = []
        async for now_ms, entry in self._entries(partition, Index.CHILDREN, parent_id, start, limit=limit + 2):
            if entry.id != besides and nodes.is_readable(entry.row, now_ms):
                chosen.append(lineage.tree_node(entry, now_ms))
                if len(chosen) > limit:
                    break
        if not chosen:
            return []
        counts = await self._count_children(partition, parent_id, {each.id for each in chosen})
        return [replace(each, child_count=counts[each.id]) for each in chosen]

    async def _count_children(self, partition: Partition, parent_id: str, ids: AbstractSet[str]) -> Counter[str]:
        """The number of readable children of each node. LimitExceeded: they have too many together."""
        most = len(ids) + self.walk_nodes_max
        now_ms, found = await self._rows.subtree(partition, sorted(ids), max_nodes=most + 1, levels=1)
        self._require_within_walk(len(found) - len(ids), parent_id)
        return Counter(
            each.row.fields["parent"]
            for each in found
            if each.row is not None and each.id not in ids and nodes.is_readable(each.row, now_ms)
        )


async def _page(
    question: Sequence[str],
    find: Callable[[Position | None], Awaitable[Sequence[Node]]],
    cursor: str | None,
    limit: int,
) -> NodePage:
    """A page of the nodes that `find` returns after a position: `limit` of them, and one more if there are more."""
    found = await find(cursors.decode(question, cursor))
    shown = found[:limit]
    return NodePage(shown, cursors.encode(question, shown[-1]) if len(found) > limit else None)
