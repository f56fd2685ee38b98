"""Items: what conversations are made of, in the one form that is stored and sent on.

Clients write items in several short forms; `normalise_input` brings each to its full form: `id`, `type` and `status`
present, message content a list of parts. Members that are not known here are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.ids import Ids, new_item_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import ItemPage, Order

ID_PREFIX = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}


def normalise_input(given: str | Sequence[Object], ids: Ids) -> list[Object]:
    """The input of a validated request as full items."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return [_normalise(item, ids) for item in given]


def page(items: bytes, *, after: str | None, limit: int, order: Order) -> ItemPage | None:
    """One page of a JSON array of items; None when `after` is not among them. Of several with one id the first counts,
    or a page after them would begin with them again."""
    first_of: dict[str, Object] = {}
    for entry in loads(items):
        first_of.setdefault(entry["id"], entry)
    entries = list(first_of.values())
    if order is Order.DESCENDING:
        entries.reverse()
    start = 0
    if after is not None:
        ids = [entry["id"] for entry in entries]
        if after not in ids:
            return None
        start = ids.index(after) + 1
    chosen = entries[start : start + limit]
    return ItemPage(
        items=dumps(chosen),
        first_id=chosen[0]["id"] if chosen else None,
        last_id=chosen[-1]["id"] if chosen else None,
        has_more=start + limit < len(entries),
    )


def _normalise(item: Object, ids: Ids) -> Object:
    given = {name: value for name, value in item.items() if value is not None}
    item_type = given.get("type", "message")
    full: Object = {
        "id": given.get("id") or new_item_id(ids, ID_PREFIX.get(item_type, "item")),
        "type": item_type,
        "status": "completed",
        **{name: value for name, value in given.items() if name not in {"id", "type"}},
    }
    if item_type == "message":
        full["content"] = _parts(given["role"], given["content"])
    return full


def _parts(role: str, content: str | list[Any]) -> list[Object]:
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    return [_part(part) for part in content]


def _part(part: Object) -> Object:
    if part["type"] == "output_text":
        return {"annotations": [], "logprobs": []} | part
    return part
