"""Operations on single responses, and on the chains that they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from antiphon_core import damage, limits, offload
from antiphon_core import items as item_arrays
from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.checks import invalid
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.store import (
    ItemPage,
    Order,
    Record,
    ResponseStore,
)
from antiphon_store.calls import implements
from antiphon_store.decisions import lineage, nodes, records
from antiphon_store.rows.model import Partition
from antiphon_store.topics.sweeping import SweepOperations
from antiphon_store.topics.topic import ROWS_AT_ONCE, of_changed_record, of_id, one_step
from antiphon_store.topics.trees import tree_of


class RecordOperations(SweepOperations):
    """Single responses, and the chains that they end."""

    page_bytes_max = limits.PAGE_BYTES_MAX

    get = one_step(ResponseStore.get, records.get, of_id("response_id"), only_reads=True)
    delete = one_step(ResponseStore.delete, records.delete, of_changed_record, needs_content=False)
    update_status = one_step(LineageStore.update_status, records.update_status, of_changed_record, needs_content=False)
    chain = one_step(ResponseStore.chain, lineage.chain, of_id("response_id"), only_reads=True)

    @implements(LineageStore.batch_get)
    async def batch_get(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        wanted = list(dict.fromkeys(ids))
        found: list[Record] = []
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            found += await self._read_together(tenant, wanted[start : start + ROWS_AT_ONCE])
            self._require_fit((each.size_bytes for each in found), field="ids")
        return found

    @implements(ResponseStore.list_items)
    async def list_items(
        self, tenant: str, response_id: str, *, after: str | None, limit: int, order: Order
    ) -> ItemPage:
        """Reads a page of a response's input items. ResponseNotFound. InvalidRequest: `after` is none of them."""
        record = await self.get(tenant, response_id)
        return await item_page(record.input_items, f"input item of '{response_id}'", after, limit, order)

    async def _read_together(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        """Reads the readable ones of some responses, in the order of their ids."""
        groups: dict[Partition, list[str]] = {}
        for each in ids:
            groups.setdefault(tree_of(tenant, each), []).append(each)
        found = await asyncio.gather(*(self._read(*group) for group in groups.items()))
        by_id = {record.id: record for part in found for record in part}
        return [by_id[each] for each in ids if each in by_id]

    async def _read(self, partition: Partition, ids: list[str]) -> list[Record]:
        """Reads the readable ones of some responses of a tree."""
        now_ms, rows = await self._trees.run(partition, partial(lineage.rows_of, response_ids=ids), only_reads=True)
        return [
            nodes.to_record(response_id, row)
            for response_id, row in zip(ids, rows, strict=True)
            if row is not None and nodes.is_readable(row, now_ms)
        ]

    def _require_fit(self, sizes: Iterable[int], *, field: str) -> None:
        """LimitExceeded: an answer of these parts would be too large. Answers are never cut silently."""
        most = self.page_bytes_max
        if sum(sizes) > most:
            raise LimitExceeded(
                f"The answer to '{field}' is over the limit of {most} bytes. Ask for fewer at a time.",
                field=field,
                limit=f"{most} bytes",
            )


async def item_page(
    items: bytes, named: str, after: str | None, limit: int, order: Order, *, removed: Sequence[str] = ()
) -> ItemPage:
    """A page of a JSON array of items without the `removed` ones. InvalidRequest: `after` is none of the items."""
    cut = partial(item_arrays.page, items, after=after, limit=limit, order=order, removed=frozenset(removed))
    with damage.reading(f"each {named}"):
        page = await offload.run(cut, size_bytes=len(items))
    if page is None:
        raise invalid("after", f"'after' names no {named}.")
    return page
