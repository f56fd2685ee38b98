"""Operations on the shape of trees: forks, and pages of nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from antiphon_core.errors import AlreadyExists, SessionLocked
from antiphon_core.ids import new_fork_id, tree_tag
from antiphon_core.ports.lineage import Fork, ForkSource, LineageStore, NodePage, RecordPage
from antiphon_core.ports.store import Order, Record
from antiphon_store import cursors
from antiphon_store.calls import implements
from antiphon_store.decisions import forks, nodes
from antiphon_store.rows.model import Index, Partition, Payload, made_id, named_node
from antiphon_store.rows.view import Finish, View
from antiphon_store.topics.node_pages import NodePages
from antiphon_store.topics.trees import tree_of


class LineageOperations(NodePages):
    """The operations of `antiphon_core.ports.lineage.LineageStore` on the shape of trees."""

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
            partition,
            Index.MADE,
            session_id,
            start,
            descending=order is Order.DESCENDING,
            limit=limit + 1,
            payload=Payload.ALL,
        ):
            if entry.row is None or not nodes.is_readable(entry.row, now_ms):
                continue
            record = nodes.to_record(named_node(entry.id), entry.row)
            size_bytes += record.size_bytes
            if len(found) == limit or (found and size_bytes > self.page_bytes_max):
                return RecordPage(found, cursors.encode(question, found[-1]))
            found.append(record)
        return RecordPage(found)

    @implements(LineageStore.tree)
    async def tree(
        self, tenant: str, response_id: str, *, from_root: bool, cursor: str | None, max_nodes: int
    ) -> NodePage:
        question = (tenant, "tree", response_id, str(from_root))
        after = cursors.decode(question, cursor)
        async with self._own_line(tenant):
            part = await self._part_of(tenant, response_id, from_root=from_root)
            return await self._levels(part, after, max_nodes, question)

    @implements(LineageStore.leaves)
    async def leaves(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        question = (tenant, "leaves", response_id)
        after = cursors.decode(question, cursor)
        async with self._own_line(tenant):
            part = await self._part_of(tenant, response_id, from_root=False)
            return await self._leaves(part, after, limit, question)

    @implements(LineageStore.children)
    async def children(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        question = (tenant, "children", response_id)
        after = cursors.decode(question, cursor)
        async with self._own_line(tenant):
            await self._readable(tenant, response_id)
            return await self._children(tree_of(tenant, response_id), response_id, "", after, limit, question)

    @implements(LineageStore.siblings)
    async def siblings(self, tenant: str, response_id: str, *, cursor: str | None, limit: int) -> NodePage:
        question = (tenant, "siblings", response_id)
        after = cursors.decode(question, cursor)
        async with self._own_line(tenant):
            parent_id = (await self._readable(tenant, response_id))["parent"]
            if parent_id is None:
                return NodePage([])
            return await self._children(tree_of(tenant, response_id), parent_id, response_id, after, limit, question)

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
