"""Responses found in other ways than one by one: several ids, a session's list, the items in them.

Scripts say less than all when that is more than one of them may read, and are then asked to go on from where they
stopped. What they passed over was unreadable, and stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon_core.errors import InternalError
from antiphon_core.ports.lineage import ResolvedItem
from antiphon_core.ports.store import Order, Record
from antiphon_store.backends import packing
from antiphon_store.backends.item_search import pick
from antiphon_store.backends.redis import answers, scripts
from antiphon_store.backends.redis.calls import NONE, Argument, quoted
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.roles.lineage import Position, Slice
from antiphon_store.backends.slices import ByteBudget, size_bytes

NOWHERE = ""


class RedisCatalogue:
    """Implements these atoms of `roles.lineage.LineageAtoms` for RedisBackend."""

    async def fetch_many(self: Engine, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        budget = ByteBudget(max_bytes, field="ids")
        found: dict[str, Record] = {}
        for group in self._keys.together(ids):
            keys = [self._keys.tree_root(tenant, group[0])]
            answer = await self._run(scripts.FETCH_MANY, tenant, keys, [max_bytes, *group])
            for meta in map(answers.read_meta, answer[0]):
                budget.use(int(meta.size))
            found |= {record.id: record for record in answers.records(answer)}
        return [found[each] for each in ids if each in found]

    async def session_records(
        self: Engine,
        tenant: str,
        session_id: str,
        *,
        after: Position | None,
        limit: int,
        order: Order,
        max_bytes: int,
    ) -> Slice[Record]:
        keys = [self._keys.made_key(tenant, session_id)]
        end: list[Argument] = [NONE] * 3 if after is None else [after.created_at_ms, after.depth, after.id]
        records: list[Record] = []
        left_bytes, stopped = max_bytes, NOWHERE
        while True:
            arguments = [order.value, *end, limit - len(records), left_bytes, stopped]
            answer = await self._run(scripts.SESSION_RECORDS, tenant, keys, arguments)
            records += answers.records(answer[:3])
            has_more, stopped = bool(answer[3]), answer[4].decode()
            left_bytes = max_bytes - sum(map(size_bytes, records))
            if has_more or stopped == NOWHERE:
                return Slice(records, has_more=has_more)

    async def find_items(
        self: Engine, tenant: str, item_ids: Sequence[str], *, max_bytes: int
    ) -> Sequence[ResolvedItem]:
        keys = [self._keys.tenant_root(tenant, "ResolveItems")]
        budget = ByteBudget(max_bytes, field="item_ids")
        found: list[ResolvedItem] = []
        rest, stopped = list(item_ids), NOWHERE
        while rest:
            words = quoted(rest).split(" ")
            metas, items, owners, end = await self._run(scripts.FIND_ITEMS, tenant, keys, [max_bytes, stopped, *words])
            asked, rest, stopped = rest[: len(owners)], rest[len(owners) :], end.decode()
            wanted = [(item_id, number) for item_id, number in zip(asked, owners, strict=True) if number]
            for item in _picked(metas, items, wanted):
                budget.use(len(item.item))
                found.append(item)
        return found


def _picked(
    metas: Sequence[bytes], items: Sequence[bytes], wanted: Iterable[tuple[str, int]]
) -> Iterable[ResolvedItem]:
    """The items, each out of the response of its number. InternalError: the bytes are not those that were written."""
    ids_of: dict[int, list[str]] = {}
    order = [(item_id, number) for item_id, number in wanted]
    for item_id, number in order:
        ids_of.setdefault(number, []).append(item_id)
    picked: dict[str, ResolvedItem] = {}
    for number, item_ids in ids_of.items():
        meta = answers.read_meta(metas[number - 1])
        answers.require_items(meta, items[number - 1])
        arrays = packing.unpack(items[number - 1], int(meta.input_bytes))
        picked |= pick(meta.id, arrays, set(item_ids))
        if not picked.keys() >= set(item_ids):
            raise InternalError(f"The items of '{meta.id}' are not those that it is filed under.", id=meta.id)
    return [picked[item_id] for item_id, _ in order]
