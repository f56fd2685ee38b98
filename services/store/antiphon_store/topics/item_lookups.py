"""Lookups of items by id, in any response of a tenant.

An index names the responses with an item. Each response is read and parsed once for all items that are looked up in it,
outside of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from antiphon_core import damage, offload
from antiphon_core.abandoned_calls import as_history
from antiphon_core.ids import item_tag
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.lineage import LineageStore, ResolvedItem, ResolvedItems
from antiphon_store.calls import implements
from antiphon_store.decisions import lineage, nodes
from antiphon_store.rows.model import Index, Partition, Row
from antiphon_store.topics.records import RecordOperations

HOLDERS_PER_LOOK = 8  # usually the first response with an item is readable
RESPONSES_AT_ONCE = 8  # that are held in memory


class ItemLookups(RecordOperations):
    """The operation of `antiphon_core.ports.lineage.LineageStore` that finds items by id."""

    @implements(LineageStore.resolve_items)
    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        wanted = list(dict.fromkeys(item_ids))
        found: dict[str, ResolvedItem] = {}
        search = {each: self._holders(tenant, each) for each in wanted}
        while search:
            named = await asyncio.gather(*(anext(holders, None) for holders in search.values()))
            next_of = {item_id: holder for item_id, holder in zip(search, named, strict=True) if holder is not None}
            await self._look_in(tenant, next_of, found)
            search = {each: search[each] for each in next_of if each not in found}
        items = [found[each] for each in wanted if each in found]
        return ResolvedItems(items, tuple(each for each in wanted if each not in found))

    async def _item_in(self, tenant: str, response_ids: AbstractSet[str], item_id: str) -> bytes | None:
        """Reads an item of these responses, from the oldest one that has it; other responses are not read."""
        async for response_id in self._holders(tenant, item_id):
            if response_id in response_ids:
                _, row = await self._trees.look_up(tenant, response_id)
                if row is not None:
                    read = partial(_read_items, response_id, row, [item_id])
                    for each in await offload.run(read, size_bytes=len(row.items) + len(row.body)):
                        return each.item
        return None

    async def _holders(self, tenant: str, item_id: str) -> AsyncIterator[str]:
        """The responses with an item: those of the tree that its id names, then those of other trees, each in the order
        of their creation."""
        tag = item_tag(item_id)
        own = [(Partition(tenant, tag), Index.ITEM)] if tag is not None else []
        for partition, index in [*own, (Partition(tenant, ""), Index.FOREIGN)]:
            entries = self._entries(partition, index, item_id, limit=HOLDERS_PER_LOOK)
            async for _, entry in entries:
                yield entry.id

    async def _look_in(self, tenant: str, next_of: Mapping[str, str], found: dict[str, ResolvedItem]) -> None:
        """Adds to `found` the items that a lookup finds in the responses that `next_of` names for them.
        LimitExceeded."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for item_id, response_id in next_of.items():
            groups[response_id].append(item_id)
        waiting = list(groups.items())
        for start in range(0, len(waiting), RESPONSES_AT_ONCE):
            part = waiting[start : start + RESPONSES_AT_ONCE]
            for items in await asyncio.gather(*(self._items_in(tenant, *each) for each in part)):
                found.update({each.id: each for each in items})
            self._require_fit((len(each.item) for each in found.values()), field="item_ids")

    async def _items_in(self, tenant: str, response_id: str, item_ids: Collection[str]) -> Sequence[ResolvedItem]:
        """Those of the items that a lookup finds in a response."""
        now_ms, row = await self._trees.look_up(tenant, response_id)
        hidden = await self._hidden_items(tenant, response_id, row, now_ms)
        if row is None or hidden is None:
            return ()
        read = partial(_read_items, response_id, row, [each for each in item_ids if each not in hidden])
        return await offload.run(read, size_bytes=len(row.items) + len(row.body))

    async def _hidden_items(
        self, tenant: str, response_id: str, row: Row | None, now_ms: int
    ) -> AbstractSet[str] | None:
        """The items of a node that a lookup does not find; None: it finds none of them. A lookup finds the items of a
        readable node, and those of an addition by hand that its conversation still contains."""
        if row is None or not row.fields.get("added") or nodes.is_expired(row.fields, now_ms):
            return frozenset() if nodes.is_readable(row, now_ms) else None
        conversation_id = row.fields["session"]
        if conversation_id is None:
            raise damage.report(f"the addition '{response_id}'", "it names no conversation")
        context = partial(lineage.context_ids, session_id=conversation_id)
        standing, removed = await self._trees.of_session(tenant, conversation_id, context, only_reads=True)
        return removed if response_id in standing else None


def _read_items(response_id: str, row: Row, item_ids: Collection[str]) -> Sequence[ResolvedItem]:
    """The first item of each id in a response: in its input, else in its output, as later turns read it."""
    record = nodes.to_record(response_id, row)
    with damage.reading(f"response '{response_id}'"):
        parts = (as_history(record.output_items, record.status), record.input_items)
        by_id = {item["id"]: item for part in parts for item in reversed(loads(part))}
    return [ResolvedItem(each, response_id, dumps(by_id[each])) for each in item_ids if each in by_id]
