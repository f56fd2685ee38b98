"""The context window: the items of a conversation that the model reads, and the settings that apply to them.

A compaction replaces the assistant's messages, reasoning, tool calls and their outputs before it. Other messages stay
word for word, and so do items that change settings or add tools, and searches for tools. Only the model's view becomes
shorter: the items stay in the store.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.items import is_extension
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Turn
from antiphon_core.request.client_items import SEARCH_CALL, SEARCH_OUTPUT
from antiphon_core.request.context import COMPACTION, CONFIGURATION, TRIGGER
from antiphon_edge import stored_content

_KEPT_TYPES = ("additional_tools", SEARCH_CALL, SEARCH_OUTPUT, CONFIGURATION)
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
MARKS = (COMPACTION.encode(), CONFIGURATION.encode())  # the first is a part of TRIGGER
"""One of them is in the JSON of every item that is a compaction, its trigger or a change of settings."""


def visible_items(items: Sequence[Object]) -> list[Object]:
    """The items that stay visible when a compaction follows. An asynchronous call stays until its output has come,
    because the output refers to the call by its id."""
    return _visible_items(items, _answered_ids(items))


def visible_turn(turn: Turn) -> Turn:
    """Returns the turn with only the items that the model reads, and with the settings that apply."""
    if not any(mark in items for mark in MARKS for items in (turn.history, turn.input)):
        return turn
    history, given = stored_content.history_of(turn), loads(turn.input)
    items = [*history, *given]
    begins = _last_compaction(items)
    answered = _answered_ids(items[:begins])
    return replace(
        turn,
        request=_apply_settings(turn.request, items),
        history=dumps(_from(history, begins, answered)),
        input=dumps(_from(given, begins - len(history), answered)),
    )


async def shown_off_loop(turn: Turn) -> Turn:
    """Calls `visible_turn`, off the event loop if searching and parsing could block it."""
    return await offload.run(partial(visible_turn, turn), size_bytes=turn.size_bytes)


def require_compactable_turn(turn: Turn) -> None:
    """Raises InvalidRequest if the items of the turn have no content to summarise."""
    require_compactable([*stored_content.history_of(turn), *loads(turn.input)])


def require_compactable(items: Sequence[Object]) -> None:
    """Raises InvalidRequest if the items have no content to summarise."""
    if all(_has_no_content(item.get("type", "message")) for item in items):
        raise InvalidRequest("There is nothing to compact: the input is empty.", field="input", code="empty_array")


def _has_no_content(item_type: str) -> bool:
    return item_type in (TRIGGER, *_KEPT_TYPES) or is_extension(item_type)


def can_shrink(turn: Turn) -> bool:
    """Whether a compaction would replace any item of a turn, other than an earlier compaction."""
    history = stored_content.history_of(turn)
    items = [item for item in (*history, *loads(turn.input)) if item.get("type") != COMPACTION]
    return len(visible_items(items)) < len(items)


def _visible_items(items: Sequence[Object], answered: Set[object]) -> list[Object]:
    return [item for item in items if _is_kept(item) or _is_pending_call(item, answered)]


def _answered_ids(items: Sequence[Object]) -> Set[object]:
    """The ids of the calls whose outputs are among the items."""
    return {item.get("call_id") for item in items if item.get("type") in _OUTPUTS}


def _is_kept(item: Object) -> bool:
    item_type = item.get("type", "message")
    return (
        item.get("role") != "assistant"
        if item_type == "message"
        else item_type in _KEPT_TYPES or is_extension(item_type)
    )


def _is_pending_call(item: Object, answered: Set[object]) -> bool:
    call_id = item.get("call_id")  # of any type, where a client gave it to another item
    return item.get("async") is True and isinstance(call_id, str) and call_id not in answered


def _last_compaction(items: Sequence[Object]) -> int:
    return max((index for index, item in enumerate(items) if item.get("type") == COMPACTION), default=0)


def _from(items: Sequence[Object], index: int, answered: Set[object]) -> list[Object]:
    """The items from an index on, and those before it that stay visible."""
    index = max(index, 0)
    return [*_visible_items(items[:index], answered), *items[index:]]


def _apply_settings(request: bytes, items: Sequence[Object]) -> bytes:
    """The parameters of a request, changed by the configuration items of the turn, in their order."""
    updates = [item for item in items if item.get("type") == CONFIGURATION]
    if not updates:
        return request
    parameters: Object = loads(request)
    for update in updates:
        for name in ("reasoning", "text"):
            if update.get(name):
                parameters[name] = (parameters.get(name) or {}) | update[name]
    return dumps(parameters)
