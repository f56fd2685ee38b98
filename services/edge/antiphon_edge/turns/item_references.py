"""Item references: input items that only name, by its id, an item of a stored response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest, ItemNotFound
from antiphon_core.jsons import Object, loads, work_bytes
from antiphon_core.limits import LOOKUP_ITEMS_MAX
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.request.items import REFERENCE


class ResolvedItems(NamedTuple):
    """Items without references. `added_bytes` is the work (`jsons.work_bytes`) of the stored items among them, which
    may be far larger than the request that refers to them."""

    items: Sequence[Object]
    added_bytes: int = 0


async def look_up(store: LineageStore, tenant: str, given: Sequence[Object], *, field: str) -> ResolvedItems:
    """Replaces each reference by the stored item. ItemNotFound: the tenant has no item of that id. InvalidRequest:
    there are more references than LOOKUP_ITEMS_MAX."""
    wanted = [item["id"] for item in given if item.get("type") == REFERENCE]
    if not wanted:
        return ResolvedItems(given)
    if len(wanted) > LOOKUP_ITEMS_MAX:
        message = f"'{field}' refers to {len(wanted)} items; at most {LOOKUP_ITEMS_MAX} are looked up."
        raise InvalidRequest(message, field=field, code="array_above_max_length")
    found = await store.resolve_items(tenant, wanted)
    for missing_id in found.missing_ids:
        raise _unknown(missing_id, field)
    added_bytes = sum(work_bytes(each.item) for each in found.items)
    items = await offload.run(lambda: {each.id: loads(each.item) for each in found.items}, size_bytes=added_bytes)
    resolved = [items[item["id"]] if item.get("type") == REFERENCE else item for item in given]
    return ResolvedItems(resolved, added_bytes)


def _unknown(item_id: str, field: str) -> ItemNotFound:
    """The error in OpenAI's words, which clients search for."""
    return ItemNotFound(
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. Try again with "
        "`store` set to true, or remove this item from your input.",
        field=field,
        id=item_id,
    )
