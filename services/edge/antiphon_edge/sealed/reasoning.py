"""`reasoning.encrypted_content`: reasoning items on their way out get a sealed copy, and on their way in are read.

Only who asks for it pays: the frames that end a reasoning item, and the last one, are made anew. Whoever asks when the
response is stored already gets a seal of that moment: stored is the text, or the seal of who asked in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Batch, Turn
from antiphon_edge.sealed import output_items
from antiphon_edge.sealed.sealing import BadSeal, Sealer, refused

INCLUDE = "reasoning.encrypted_content"
Change = Callable[[Batch], Batch]
_REASONING = b'"type":"reasoning"'


def opened(items: Sequence[Object], sealer: Sealer, tenant: str, *, where: str = "input") -> list[Object]:
    """Items of a request with what is sealed in them. InvalidRequest: something cannot be opened, with its path."""
    return [_opened(item, f"{where}[{index}]", sealer, tenant) for index, item in enumerate(items)]


def _opened(item: Object, path: str, sealer: Sealer, tenant: str) -> Object:
    """A seal has to be ours also where the client has the text beside it; then the text is what counts."""
    sealed = item.get("encrypted_content")
    if item.get("type") != "reasoning" or sealed is None:
        return item
    try:
        text = sealer.open(tenant, sealed)
    except BadSeal:
        raise refused(f"{path}.encrypted_content") from None
    return item if item.get("content") else item | {"content": [{"type": "reasoning_text", "text": text}]}


class ReasoningSealer:
    """Seals the reasoning of one response."""

    def __init__(self, sealer: Sealer, tenant: str, *, told: Sequence[Object] = ()) -> None:
        self._sealer = sealer
        self._tenant = tenant
        self._sealed: dict[str, str] = {
            item["id"]: item["encrypted_content"] for item in told if item.get("encrypted_content")
        }

    def __call__(self, batch: Batch) -> Batch:
        return output_items.changed(batch, _REASONING, self.item)

    def item(self, item: Object) -> Object:
        """A reasoning item with its text sealed: the same seal wherever the item is told, and the one that it has."""
        if item["type"] != "reasoning" or item.get("encrypted_content"):
            return item
        if item["id"] not in self._sealed:
            text = "".join(part["text"] for part in item.get("content") or item.get("summary") or ())
            self._sealed[item["id"]] = self._sealer.seal(self._tenant, text)
        return item | {"encrypted_content": self._sealed[item["id"]]}


def unchanged(batch: Batch) -> Batch:
    return batch


def sealer_of(tenant: str, turn: Turn, sealer: Sealer, *, told: Sequence[Object] = ()) -> Change:
    """Makes the change that seals the reasoning of a turn, if its request asks for that. `told` are output items that
    were sent with their seals before: they keep them."""
    if INCLUDE.encode() not in turn.request:
        return unchanged
    wanted = loads(turn.request).get("include") or ()
    return ReasoningSealer(sealer, tenant, told=told) if INCLUDE in wanted else unchanged
