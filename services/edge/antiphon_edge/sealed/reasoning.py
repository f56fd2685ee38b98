"""`reasoning.encrypted_content`: seals the text of reasoning items in responses, and opens it in requests.

It costs only requests with this `include`: frames that end a reasoning item, and the last frame, are encoded again. A
response that was created without it is sealed when it is read with it; the sealed text is not stored then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Batch, Turn
from antiphon_edge.sealed import output_items
from antiphon_edge.sealed.sealing import BadSeal, Sealer, bad_seal_error

INCLUDE = "reasoning.encrypted_content"
Change = Callable[[Batch], Batch]
_REASONING = b'"type":"reasoning"'


def open_items(items: Sequence[Object], sealer: Sealer, tenant: str, *, where: str = "input") -> list[Object]:
    """The items of a request, with reasoning opened. InvalidRequest: an item cannot be opened; names its path."""
    return [_open_item(item, f"{where}[{index}]", sealer, tenant) for index, item in enumerate(items)]


def _open_item(item: Object, path: str, sealer: Sealer, tenant: str) -> Object:
    """Opens one item. The sealed text must be valid even if the item has plain content, which then is used."""
    sealed = item.get("encrypted_content")
    if item.get("type") != "reasoning" or sealed is None:
        return item
    try:
        text = sealer.open(tenant, sealed)
    except BadSeal:
        raise bad_seal_error(f"{path}.encrypted_content") from None
    return item if item.get("content") else item | {"content": [{"type": "reasoning_text", "text": text}]}


class ReasoningSealer:
    """Seals the reasoning of one response."""

    def __init__(self, sealer: Sealer, tenant: str, *, sent: Sequence[Object] = ()) -> None:
        self._sealer = sealer
        self._tenant = tenant
        self._sealed: dict[str, str] = {
            item["id"]: item["encrypted_content"] for item in sent if item.get("encrypted_content")
        }

    def __call__(self, batch: Batch) -> Batch:
        return output_items.change_output(batch, _REASONING, self.item)

    def item(self, item: Object) -> Object:
        """A reasoning item with its text sealed. An item is sealed once; all events carry the same sealed text."""
        if item["type"] != "reasoning" or item.get("encrypted_content"):
            return item
        if item["id"] not in self._sealed:
            text = "".join(part["text"] for part in item.get("content") or item.get("summary") or ())
            self._sealed[item["id"]] = self._sealer.seal(self._tenant, text)
        return item | {"encrypted_content": self._sealed[item["id"]]}


def sealer_of(tenant: str, turn: Turn, sealer: Sealer, *, sent: Sequence[Object] = ()) -> Change | None:
    """Returns the function that seals the reasoning of a turn, or None if its request does not ask for it. `sent`:
    output items that were sent before; they keep their sealed text."""
    wanted = loads(turn.request).get("include") or ()
    return ReasoningSealer(sealer, tenant, sent=sent) if INCLUDE in wanted else None
