"""Items of conversations, in the full form that is stored and sent to the translator.

Clients may write items in short forms. `normalise_input` expands them: every item gets `id`, `type` and `status`, and
the content of a message becomes a list of parts. Unknown members of items and parts are kept, null ones dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from antiphon_core.ids import Ids, new_item_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import ItemPage, Order

EXTENSION = r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.:-]+"
"""The form of item types that Open Responses does not define itself: `vendor:type`."""

ID_PREFIX = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "reasoning": "rs",
    "compaction": "cmp",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcprr",
    "web_search_call": "ws",
}

SERVER_CALL_TYPES = frozenset({"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call"})
"""Types of calls that a server runs. Such an item has the result of the call, too."""


def is_extension(item_type: str) -> bool:
    """Whether this is the type of another vendor's item, which is kept unchanged."""
    return ":" in item_type


def normalise_input(given: str | Sequence[Object], ids: Ids, *, relative: str | None = None) -> list[Object]:
    """The input of a validated request as full items. If two items have the same id, the second gets a new one. New ids
    are in the tree of `relative`, a response or conversation id."""

    def new_id(item_type: str) -> str:
        return new_item_id(ids, ID_PREFIX.get(item_type, "item"), relative=relative)

    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    full: dict[str, Object] = {}
    for item in given:
        named = _normalise(item, new_id)
        if named["id"] in full:
            named = named | {"id": new_id(named["type"])}  # two references may be to one object
        full[named["id"]] = named
    return list(full.values())


def page(
    items: bytes, *, after: str | None, limit: int, order: Order, removed: Collection[str] = ()
) -> ItemPage | None:
    """One page of a JSON array of items; None if `after` is not among them. Items with the ids `removed` are left out,
    but a page may begin behind one of them.

    If several items have the same id, `first_id` and `last_id` distinguish them by a suffix (`_with_ids`), so that
    the next page begins behind the right one."""
    entries = _with_ids(loads(items))
    if order is Order.DESCENDING:
        entries.reverse()
    names = [name for name, _ in entries]
    if after is not None and after not in names:
        return None
    start = names.index(after) + 1 if after is not None else 0
    rest = [each for each in entries[start:] if each[1]["id"] not in removed]
    chosen = rest[:limit]
    return ItemPage(
        items=dumps([entry for _, entry in chosen]),
        first_id=chosen[0][0] if chosen else None,
        last_id=chosen[-1][0] if chosen else None,
        has_more=limit < len(rest),
    )


def _with_ids(entries: Sequence[Object]) -> list[tuple[str, Object]]:
    """Names each item by its id, the second with the same id `ID~2`, and so on; a number whose name is taken is left
    out. Items that are added later do not change these names."""
    numbers: defaultdict[str, int] = defaultdict(lambda: 1)
    named: dict[str, Object] = {}
    for entry in entries:
        name = item_id = entry["id"]
        while name in named:
            numbers[item_id] += 1
            name = f"{item_id}~{numbers[item_id]}"
        named[name] = entry
    return list(named.items())


def _normalise(item: Object, new_id: Callable[[str], str]) -> Object:
    """The full item. `new_id` makes an id for the type of an item."""
    item_type = item.get("type") or "message"
    if is_extension(item_type):
        return item if item.get("id") else item | {"id": new_id(item_type)}
    given = _without_null(item)
    first: Object = {"id": given.get("id") or new_id(item_type), "type": item_type}
    full = first | {"status": "completed"} | given | first
    if item_type == "message":
        full["content"] = _parts(given["role"], given["content"])
    return full


def _parts(role: str, content: str | list[Any]) -> list[Object]:
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    return list(map(_part, content))


def _part(part: Object) -> Object:
    given = _without_null(part)
    if given["type"] == "output_text":
        return {"annotations": [], "logprobs": []} | given
    return given


def _without_null(members: Object) -> Object:
    """The members that are not null; the same object if none is."""
    if None not in members.values():
        return members
    return {name: value for name, value in members.items() if value is not None}
