"""Items that a request only refers to, by the id under which some stored response has them."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.errors import ItemNotFound
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.lineage import LineageStore

_REFERENCE = "item_reference"


async def look_up(store: LineageStore, tenant: str, given: Sequence[Object], *, field: str) -> list[Object]:
    """The items, with those that are referred to in their place. ItemNotFound: the tenant has none of that id."""
    wanted = [item["id"] for item in given if item.get("type") == _REFERENCE]
    if not wanted:
        return list(given)
    found = await store.resolve_items(tenant, wanted)
    for missing_id in found.missing_ids:
        raise ItemNotFound(f"Item with id '{missing_id}' not found.", field=field, id=missing_id)
    items: dict[str, Object] = {each.id: loads(each.item) for each in found.items}
    return [items[item["id"]] if item.get("type") == _REFERENCE else item for item in given]
