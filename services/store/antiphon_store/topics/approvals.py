"""Operations on approvals. Turns take them (`turns.py`), and writes of responses ask for them (`writes.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from antiphon_core import limits
from antiphon_core.errors import DataDamaged
from antiphon_core.ids import item_tag
from antiphon_core.ports.approvals import ApprovalPage, Approvals
from antiphon_core.ports.checks import check_in_tree
from antiphon_core.ports.store import Approval, Fence, Order
from antiphon_store import cursors
from antiphon_store.calls import implements
from antiphon_store.cursors import Position
from antiphon_store.decisions import approvals
from antiphon_store.rows.model import Entry, Index, Partition, Span
from antiphon_store.topics.topic import ROWS_AT_ONCE, Topic
from antiphon_store.topics.trees import session_of


class ApprovalOperations(Topic):
    """The operations of `antiphon_core.ports.approvals.Approvals`."""

    approval_page_bytes_max = limits.PAGE_BYTES_MAX

    @implements(Approvals.list_approvals)
    async def list_approvals(self, tenant: str, *, cursor: str | None, limit: int, order: Order) -> ApprovalPage:
        question = (tenant, "approvals", order.value)
        after = cursors.decode(question, cursor)
        start = (after.created_at_ms, after.id) if after is not None else None
        found: list[Approval] = []
        size_bytes = 0
        while True:
            size = min(ROWS_AT_ONCE, limit + 1)
            span = Span(size, start, order is Order.DESCENDING)
            now_ms, page = await self._rows.page(Partition(tenant, ""), Index.ASKED, "", span)
            for each in await self._read_open(tenant, page, now_ms):
                size_bytes += len(each.content)
                if len(found) == limit or (found and size_bytes > self.approval_page_bytes_max):
                    last = Position(0, found[-1].created_at_ms, found[-1].id)
                    return ApprovalPage(found, cursors.encode(question, last))
                found.append(each)
            if len(page) < size:
                return ApprovalPage(found)
            start = (page[-1].at, page[-1].id)

    @implements(Approvals.hold_approvals)
    async def hold_approvals(self, tenant: str, approval_ids: Sequence[str], response_id: str) -> Sequence[Approval]:
        check_in_tree(approval_ids, response_id, "approval_ids")
        hold = partial(approvals.hold, approval_ids=approval_ids, response_id=response_id)
        return await self._trees.of_response(tenant, response_id, hold)

    @implements(Approvals.return_approvals)
    async def return_approvals(
        self, tenant: str, approval_ids: Sequence[str], response_id: str, *, fence: Fence | None
    ) -> None:
        check_in_tree(approval_ids, response_id, "approval_ids")
        give_back = partial(approvals.give_back, approval_ids=approval_ids, response_id=response_id, fence=fence)
        await self._bare.of_record(tenant, response_id, session_of(fence), give_back)

    async def _read_open(self, tenant: str, entries: Sequence[Entry], now_ms: int) -> Sequence[Approval]:
        """The open ones of listed approvals, in the order of the list. Those of one tree are read in one step."""
        ids = [each.id for each in entries]
        trees = [(tag, list(group)) for tag, group in groupby(sorted(ids, key=_tree), _tree)]
        read = [self._read_tree(Partition(tenant, tag), group, now_ms) for tag, group in trees]
        by_id = {each.id: each for part in await asyncio.gather(*read) for each in part}
        return [by_id[each] for each in ids if each in by_id]

    async def _read_tree(self, tree: Partition, ids: Sequence[str], now_ms: int) -> Sequence[Approval]:
        """The open ones of some approvals of a tree. A damaged one is reported in the log, and left out: it must not
        hide the others."""
        read = partial(approvals.read_open, approval_ids=ids, now_ms=now_ms)
        try:
            return await self._trees.run(tree, read, only_reads=True)
        except DataDamaged:
            if len(ids) == 1:
                return []
        return [each for one in ids for each in await self._read_tree(tree, [one], now_ms)]


def _tree(approval_id: str) -> str:
    return item_tag(approval_id) or ""
