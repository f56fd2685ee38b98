"""Hosted tools, which OpenAI runs on its own servers and which Antiphon does not have.

A request with a hosted tool is rejected, with the path of the tool. For clients that always send such tools, an
operator can have them removed instead (`hosted_tools = "drop"`). The response then lists the types of removed tools in
`dropped_tools` and in a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object

NOTE = "dropped_tools"
HOSTED = frozenset(
    """
    code_interpreter file_search image_generation mcp programmatic_tool_calling tool_search
    web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11
    """.split()
)
_BRINGING_TOOLS = ("additional_tools", "tool_search_output")


def reject_note(given: Object) -> None:
    """Raises InvalidRequest if the request has the member `dropped_tools`, which only the server sets."""
    if NOTE in given:
        raise InvalidRequest(f"Unknown parameter: '{NOTE}'.", field=NOTE, code="unknown_parameter")


def dropped(given: Object) -> Object:
    """Removes hosted tools from a request body, also from its items, and adds the list of their types."""
    left_out: dict[str, None] = {}
    kept = dict(given)
    if isinstance(given.get("tools"), list):
        kept["tools"] = _kept(given["tools"], left_out)
    if isinstance(given.get("input"), list):
        kept["input"] = [_item(item, left_out) for item in given["input"]]
    return kept | {NOTE: list(left_out)} if left_out else kept


def _item(item: Any, left_out: dict[str, None]) -> Any:
    if not (isinstance(item, dict) and item.get("type") in _BRINGING_TOOLS and isinstance(item.get("tools"), list)):
        return item
    return item | {"tools": _kept(item["tools"], left_out)}


def _kept(tools: list[Any], left_out: dict[str, None]) -> list[Any]:
    kept = []
    for tool in tools:
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if isinstance(kind, str) and kind in HOSTED:
            left_out[kind] = None
        else:
            kept.append(_not_deferred(tool))
    return kept


def _not_deferred(tool: Any) -> Any:
    """Removes `defer_loading`: without tool search, every tool is shown to the model from the beginning."""
    if not isinstance(tool, Mapping):
        return tool
    shown = {name: value for name, value in tool.items() if name != "defer_loading"}
    if isinstance(shown.get("tools"), list):
        shown["tools"] = [_not_deferred(inner) for inner in shown["tools"]]
    return shown
