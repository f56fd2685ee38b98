"""`compaction` items on their way out are sealed, and on their way in opened, by any replica that has the key.

The sealed text is what counts: clients keep no other member. Beside it stands the summary as it was written; it is its
owner's, and a stored conversation must be readable for longer than a key is.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch
from antiphon_core.request.context import COMPACTION
from antiphon_edge.sealed import output_items
from antiphon_edge.sealed.sealing import BadSeal, Sealer, refused


def opened(items: Sequence[Object], sealer: Sealer, tenant: str, *, where: str = "input") -> list[Object]:
    """Items of a request with what is sealed in their compactions. InvalidRequest: one cannot be opened."""
    return [_opened(item, f"{where}[{index}].encrypted_content", sealer, tenant) for index, item in enumerate(items)]


def _opened(item: Object, path: str, sealer: Sealer, tenant: str) -> Object:
    if item.get("type") != COMPACTION:
        return item
    try:
        text = sealer.open(tenant, item["encrypted_content"], purpose=COMPACTION)
    except BadSeal:
        raise refused(path) from None
    return item | {"summary": [{"type": "summary_text", "text": text}]}


def sealed(item: Object, sealer: Sealer, tenant: str) -> Object:
    """A compaction with its summary sealed."""
    text = "".join(part["text"] for part in item["summary"])
    return item | {"encrypted_content": sealer.seal(tenant, text, purpose=COMPACTION)}


class CompactionSealer:
    """Seals the compaction of one response: the same seal wherever it is told."""

    def __init__(self, sealer: Sealer, tenant: str) -> None:
        self._sealer = sealer
        self._tenant = tenant
        self._sealed: dict[str, Object] = {}

    def __call__(self, batch: Batch) -> Batch:
        return output_items.changed(batch, COMPACTION.encode(), self._item)

    def _item(self, item: Object) -> Object:
        if item["type"] != COMPACTION:
            return item
        if item["id"] not in self._sealed:
            self._sealed[item["id"]] = sealed(item, self._sealer, self._tenant)
        return self._sealed[item["id"]]
