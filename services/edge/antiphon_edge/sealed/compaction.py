"""Seals the summary of `compaction` items in responses, and opens it in requests. Any replica with the key can do so.

A client may send back the sealed text alone, so the summary is always taken from it. The plain `summary` stays in the
item: the client may read it, and a stored conversation must stay readable after its key is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch
from antiphon_core.request.context import COMPACTION
from antiphon_edge.sealed import output_items
from antiphon_edge.sealed.sealing import BadSeal, Sealer, bad_seal_error


def open_items(items: Sequence[Object], sealer: Sealer, tenant: str, *, where: str = "input") -> list[Object]:
    """The items of a request, with the summaries of compactions opened. InvalidRequest: one cannot be opened."""
    return [_open_item(item, f"{where}[{index}].encrypted_content", sealer, tenant) for index, item in enumerate(items)]


def _open_item(item: Object, path: str, sealer: Sealer, tenant: str) -> Object:
    if item.get("type") != COMPACTION:
        return item
    try:
        text = sealer.open(tenant, item["encrypted_content"], purpose=COMPACTION)
    except BadSeal:
        raise bad_seal_error(path) from None
    return item | {"summary": [{"type": "summary_text", "text": text}]}


def seal_item(item: Object, sealer: Sealer, tenant: str) -> Object:
    """A compaction item with its summary sealed into `encrypted_content`."""
    text = "".join(part["text"] for part in item["summary"])
    return item | {"encrypted_content": sealer.seal(tenant, text, purpose=COMPACTION)}


class CompactionSealer:
    """Seals the compaction items of one response, each once: all events carry the same sealed text."""

    def __init__(self, sealer: Sealer, tenant: str) -> None:
        self._sealer = sealer
        self._tenant = tenant
        self._sealed: dict[str, Object] = {}

    def __call__(self, batch: Batch) -> Batch:
        return output_items.change_output(batch, COMPACTION.encode(), self._item)

    def _item(self, item: Object) -> Object:
        if item["type"] != COMPACTION:
            return item
        if item["id"] not in self._sealed:
            self._sealed[item["id"]] = seal_item(item, self._sealer, self._tenant)
        return self._sealed[item["id"]]
