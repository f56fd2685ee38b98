"""The part of a conversation that the model reads: without the items that a compaction replaces, and under the settings
that its items change.

A compaction replaces what the assistant said and did before it. What others said stays, word for word, and so do the
tools and settings that items brought. Nothing is lost: items are stored as they were; only what is shown is shorter.
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
from antiphon_core.request.context import COMPACTION, CONFIGURATION, TRIGGER

_KEPT_TYPES = ("additional_tools", "tool_search_output", CONFIGURATION)
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
SEARCHED_INLINE_BYTES_MAX = 2**20
_MARKS = (COMPACTION.encode(), CONFIGURATION.encode())


def kept(items: Sequence[Object]) -> list[Object]:
    """The items that stay when a compaction replaces these. An asynchronous call stays until its output has come,
    because the output refers to the call by its id."""
    answered = {item.get("call_id") for item in items if item.get("type") in _OUTPUTS}
    return [item for item in items if _is_kept(item) or _is_running(item, answered)]


def has_marks(turn: Turn) -> bool:
    """Whether the items may hold a compaction or a change of settings, which few turns do. Searches their JSON for two
    words, without parsing it."""
    return any(mark in items for mark in _MARKS for items in (turn.history, turn.input))


def shown(turn: Turn) -> Turn:
    """The turn with the items and the settings that the model is given."""
    if not has_marks(turn):
        return turn
    history, given = loads(turn.history), loads(turn.input)
    begins = _last_compaction([*history, *given])
    return replace(
        turn,
        request=_configured(turn.request, [*history, *given]),
        history=dumps(_from(history, begins)),
        input=dumps(_from(given, begins - len(history))),
    )


async def shown_off_loop(turn: Turn) -> Turn:
    """Shows the items as `shown` does. Looking for a mark takes 1 ms for each MiB; a mark makes it parse all items."""
    if turn.size_bytes <= SEARCHED_INLINE_BYTES_MAX and not has_marks(turn):
        return turn
    return await offload.run(partial(shown, turn), size_bytes=turn.size_bytes)


def require_compactable_turn(turn: Turn) -> None:
    """InvalidRequest: the items of the turn hold nothing that could be summed up."""
    require_compactable([*loads(turn.history), *loads(turn.input)])


def require_compactable(items: Sequence[Object]) -> None:
    """InvalidRequest: the items hold nothing that could be summed up."""
    if all(_has_no_content(item.get("type", "message")) for item in items):
        raise InvalidRequest("There is nothing to compact: the input is empty.", field="input", code="empty_array")


def _has_no_content(item_type: str) -> bool:
    return item_type in (TRIGGER, *_KEPT_TYPES) or is_extension(item_type)


def can_shrink(turn: Turn) -> bool:
    """Whether a compaction would replace any item of a turn, other than an earlier compaction."""
    items = [*loads(turn.history), *loads(turn.input)]
    return any(not _is_kept(item) for item in items if item.get("type") != COMPACTION)


def _is_kept(item: Object) -> bool:
    item_type = item.get("type", "message")
    return (
        item.get("role") != "assistant"
        if item_type == "message"
        else item_type in _KEPT_TYPES or is_extension(item_type)
    )


def _is_running(item: Object, answered: Set[object]) -> bool:
    return item.get("async") is True and item.get("call_id") not in answered


def _last_compaction(items: Sequence[Object]) -> int:
    return max((index for index, item in enumerate(items) if item.get("type") == COMPACTION), default=0)


def _from(items: Sequence[Object], index: int) -> list[Object]:
    """The items from an index on, and what stays of those before it."""
    index = max(index, 0)
    return [*kept(items[:index]), *items[index:]]


def _configured(request: bytes, items: Sequence[Object]) -> bytes:
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
