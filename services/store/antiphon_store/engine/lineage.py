"""The shape of trees: forks, lists, and what is found by other names than a response's id."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from antiphon_core import limits
from antiphon_core.errors import AlreadyExists, SessionLocked
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.store import Order, Record
from antiphon_store.decisions import forks, lineage, nodes, tree_pages
from antiphon_store.engine.item_search import pick
from antiphon_store.engine.records import RecordOperations
from antiphon_store.engine.slices import ByteBudget, require_nodes, size_bytes, take_records
from antiphon_store.engine.trees import tree_of
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Index, Partition, Row, made_id, named_node
from antiphon_store.rows.view import View
from antiphon_store.values import Position, Slice

HOLDERS_PER_LOOK = 8  # mostly the first response that an item is in can be read


class LineageOperations(RecordOperations):
    """Operations on the shape of trees. Each read is of one moment."""

    walk_nodes_max = limits.TREE_WALK_NODES_MAX

    async def fetch_many(
        self, tenant: str, ids: Sequence[str], *, max_bytes: int = limits.PAGE_BYTES_MAX
    ) -> Sequence[Record]:
        """The readable ones of `ids`, each once, in their order. LimitExceeded: over `max_bytes` of body and items."""
        groups: dict[str, list[str]] = {}
        for each in dict.fromkeys(ids):
            groups.setdefault(tree_tag(each) or each, []).append(each)
        found = await asyncio.gather(*(self._fetch_group(tenant, *group) for group in groups.items()))
        by_id = {record.id: record for part in found for record in part}
        budget = ByteBudget(max_bytes, field="ids")
        for record in by_id.values():
            budget.use(size_bytes(record))
        return [by_id[each] for each in dict.fromkeys(ids) if each in by_id]

    async def session_records(
        self,
        tenant: str,
        session_id: str,
        *,
        after: Position | None,
        limit: int,
        order: Order,
        max_bytes: int = limits.PAGE_BYTES_MAX,
    ) -> Slice[Record]:
        """The readable records with this `session_id`, ordered by birth, depth and id, in either direction. A slice
        ends before `max_bytes`, but has at least one record when there is one."""
        start = (after.created_at_ms, made_id(after.depth, after.id)) if after is not None else None
        partition = await self._trees.locate(tenant, session_id)
        records_: list[Record] = []
        async for now_ms, entry in self._entries(
            partition, Index.MADE, session_id, start, descending=order is Order.DESCENDING, limit=limit + 1
        ):
            if entry.row is not None and nodes.is_readable(entry.row, now_ms):
                records_.append(nodes.to_record(named_node(entry.id), entry.row))
                if len(records_) > limit or sum(map(size_bytes, records_)) > max_bytes:
                    break
        return take_records(records_, limit=limit, max_bytes=max_bytes)

    async def find_items(
        self, tenant: str, item_ids: Sequence[str], *, max_bytes: int = limits.PAGE_BYTES_MAX
    ) -> Sequence[ResolvedItem]:
        """Those of distinct `item_ids` that are in a readable response, in their order, and those that were added to a
        conversation and stand in its context. They are found by `Write.item_ids`. Of several nodes the first by birth
        and id counts. LimitExceeded: the items are over `max_bytes`."""
        budget = ByteBudget(max_bytes, field="item_ids")
        found = await asyncio.gather(*(self._find_item(tenant, each) for each in item_ids))
        items = [each for each in found if each is not None]
        for item in items:
            budget.use(len(item.item))
        return items

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        """In one step: what the source is now, that the new session is free, its head, and the memory of this fork: the
        same one again is answered by that alone. A session of a name that belongs to another tree gets a pointer then.
        The cost does not depend on the length of the chain.

        ResponseNotFound, PreviousResponseNotReady, NotFound, InvalidRequest, AlreadyExists, SessionLocked."""
        tree = tree_tag(source.up_to_response_id or "")
        if tree is None:
            tree = (await self._trees.locate(tenant, source.session_id or "")).tree
        there = Partition(tenant, tree)
        decision = partial(forks.fork, source=source, new_session_id=new_session_id)
        if session_tag(tenant, new_session_id) == tree:
            return await self._trees.at_home(tenant, new_session_id, decision)
        if tree_tag(new_session_id) is not None:
            return await self._runner.run(there, partial(forks.refuse_other_tree, source=source))
        return await self._fork_elsewhere(there, new_session_id, decision)

    async def _fork_elsewhere(
        self, there: Partition, new_session_id: str, decision: Callable[[View], Finish[Fork]]
    ) -> Fork:
        """Forks into a session whose name belongs to another tree. The pointer to it comes last, because it stays for
        ever; what it would lead to is taken back if it cannot be set."""
        made = await self._runner.run(there, decision)
        require_free = partial(forks.require_unused, session_id=new_session_id)
        try:
            await self._trees.point(there.tenant, new_session_id, there.tree, require_free)
        except (AlreadyExists, SessionLocked):
            await self._runner.run(there, partial(forks.undo, fork=made))
            raise
        return made

    async def tree(
        self, tenant: str, response_id: str, *, from_root: bool, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        """A readable response and everything below it (below its root with `from_root`), by depth and birth.
        ResponseNotFound. LimitExceeded: more than `walk_nodes_max` are stored there."""
        found = await self._below(tenant, response_id, from_root=from_root)
        return await asyncio.to_thread(tree_pages.tree, found, after=after, limit=limit)

    async def leaves(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        """The readable responses below a readable one that nothing readable continues, by birth. Raises what `tree`
        raises."""
        found = await self._below(tenant, response_id, from_root=False)
        return await asyncio.to_thread(tree_pages.leaves, found, below=response_id, after=after, limit=limit)

    async def _below(self, tenant: str, response_id: str, *, from_root: bool) -> Sequence[TreeNode]:
        """Everything stored below a response, in no order."""
        find, most = partial(lineage.root_of, response_id=response_id), self.walk_nodes_max
        start = await self._trees.of_response(tenant, response_id, find, only_reads=True)
        starts = [start if from_root else response_id]
        now_ms, found = await self._rows.subtree(tree_of(tenant, response_id), starts, max_nodes=most + 1)
        require_nodes(response_id, len(found), max_nodes=most)
        return [lineage.tree_node(each, now_ms) for each in found]

    async def children(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        """The readable children of a readable response, ordered by birth and id. ResponseNotFound."""
        await self.fetch(tenant, response_id)
        return await self._children_of(tree_of(tenant, response_id), response_id, "", after, limit)

    async def siblings(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        """The other children of the parent, which need not be readable. ResponseNotFound."""
        record = await self.fetch(tenant, response_id)
        if record.parent_id is None:
            return Slice([])
        return await self._children_of(tree_of(tenant, response_id), record.parent_id, response_id, after, limit)

    async def _children_of(
        self, partition: Partition, parent_id: str, besides: str, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        """The readable ones by birth and id."""
        start = (after.created_at_ms, after.id) if after is not None else None
        chosen: list[TreeNode] = []
        async for now_ms, entry in self._entries(partition, Index.CHILDREN, parent_id, start, limit=limit + 2):
            if entry.id != besides and nodes.is_readable(entry.row, now_ms):
                chosen.append(lineage.tree_node(entry, now_ms))
                if len(chosen) > limit:
                    break
        shown = chosen[:limit]
        counts = await self._count_children(partition, {each.id for each in shown})
        return Slice([replace(each, child_count=counts[each.id]) for each in shown], has_more=len(chosen) > limit)

    async def _count_children(self, partition: Partition, ids: AbstractSet[str]) -> Counter[str]:
        """How many readable children each node has."""
        if not ids:
            return Counter()
        now_ms, found = await self._rows.subtree(partition, sorted(ids), max_nodes=2**31, levels=1)
        return Counter(
            each.row.fields["parent"]
            for each in found
            if each.row is not None and each.id not in ids and nodes.is_readable(each.row, now_ms)
        )

    async def _fetch_group(self, tenant: str, tree: str, ids: list[str]) -> list[Record]:
        decision = partial(lineage.rows_of, response_ids=ids)
        now_ms, rows = await self._runner.run(Partition(tenant, tree), decision, only_reads=True)
        return [
            nodes.to_record(response_id, row)
            for response_id, row in zip(ids, rows, strict=True)
            if row is not None and nodes.is_readable(row, now_ms)
        ]

    async def _find_item(self, tenant: str, item_id: str) -> ResolvedItem | None:
        """The item in the oldest response that it is found in; entries are in the order of birth."""
        async for _, entry in self._entries(Partition(tenant, ""), Index.ITEM, item_id, None, limit=HOLDERS_PER_LOOK):
            now_ms, row = await self._trees.look_up(tenant, entry.id)
            if row is not None and await self._is_found(tenant, entry.id, row, item_id, now_ms):
                record = nodes.to_record(entry.id, row)
                picked = pick(entry.id, (record.input_items, record.output_items), {item_id})
                if item_id in picked:
                    return picked[item_id]
        return None

    async def _is_found(self, tenant: str, response_id: str, row: Row, item_id: str, now_ms: int) -> bool:
        """Whether an item is found in a node: one that was added by hand as long as it stands in its conversation."""
        if not row.fields.get("added") or nodes.is_expired(row.fields, now_ms):
            return nodes.is_readable(row, now_ms)
        conversation_id = row.fields["session"]
        context = partial(lineage.context_ids, session_id=conversation_id)
        standing, removed = await self._trees.of_session(tenant, conversation_id, context, only_reads=True)
        return response_id in standing and item_id not in removed
