"""Single items out of a response's stored items."""

from __future__ import annotations

from collections.abc import Collection

from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.lineage import ResolvedItem


def pick(response_id: str, arrays: tuple[bytes, bytes], wanted: Collection[str]) -> dict[str, ResolvedItem]:
    """Those of the wanted ids that are in the input or the output; where an id occurs twice, the first counts."""
    found: dict[str, ResolvedItem] = {}
    for array in arrays:
        for item in loads(array):
            item_id = item["id"]
            if item_id in wanted and item_id not in found:
                found[item_id] = ResolvedItem(item_id, response_id, dumps(item))
    return found
