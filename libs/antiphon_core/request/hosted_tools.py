"""Hosted tools, which OpenAI runs on its own servers and which Antiphon does not have.

A request with a hosted tool is rejected, with the path of the tool. For clients that always send such tools, an
operator can have them removed instead (`hosted_tools = "drop"`). The response then lists the types of removed tools in
`dropped_tools` and in a header.

`tool_search` is hosted unless its `execution` is `client`: then the client runs it (request/tools.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from antiphon_core.jsons import Object

NOTE = "dropped_tools"
HOSTED = frozenset(
    """
    code_interpreter file_search image_generation mcp programmatic_tool_calling tool_search
    web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11
    """.split()
)
_BRINGING_TOOLS = ("additional_tools", "tool_search_output")


def is_hosted(tool: Any) -> bool:
    """Whether OpenAI would run this tool itself."""
    kind = _type(tool)
    return kind in HOSTED and not _is_client_search(tool)


def instead_of(kind: str) -> str:
    """The sentence of an error that says how a client can do without a hosted tool of this type."""
    if kind == "tool_search":
        way = "Set its 'execution' to 'client' and run the search yourself, leave it out"
    else:
        way = "Leave it out"
    return f"{way}, or ask its operator for hosted_tools = 'drop'."


def drop_hosted_tools(given: Object) -> Object:
    """Removes hosted tools from a request body, also from its items, and adds the list of their types.

    Without a search of the client, no tool can be found later. So all tools are shown to the model from the beginning.
    """
    left_out: dict[str, None] = {}
    kept = _with_tools(given, partial(_without_hosted, left_out=left_out))
    if not any(_is_client_search(tool) for tools in _lists(kept) for tool in tools):
        kept = _with_tools(kept, lambda tools: [_not_deferred(tool) for tool in tools])
    return kept | {NOTE: list(left_out)} if left_out else kept


def _with_tools(given: Object, change: Callable[[list[Any]], list[Any]]) -> Object:
    """The request body with each of its lists of tools changed."""
    changed = dict(given)
    if isinstance(given.get("tools"), list):
        changed["tools"] = change(given["tools"])
    if isinstance(given.get("input"), list):
        changed["input"] = [
            item | {"tools": change(item["tools"])} if _brings_tools(item) else item for item in given["input"]
        ]
    return changed


def _lists(given: Object) -> Iterator[list[Any]]:
    """The lists of tools in a request body."""
    if isinstance(given.get("tools"), list):
        yield given["tools"]
    if isinstance(given.get("input"), list):
        yield from (item["tools"] for item in given["input"] if _brings_tools(item))


def _brings_tools(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _BRINGING_TOOLS and isinstance(item.get("tools"), list)


def _without_hosted(tools: list[Any], *, left_out: dict[str, None]) -> list[Any]:
    left_out.update((tool["type"], None) for tool in tools if is_hosted(tool))
    return [tool for tool in tools if not is_hosted(tool)]


def _type(tool: Any) -> str:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _is_client_search(tool: Any) -> bool:
    return _type(tool) == "tool_search" and tool.get("execution") not in (None, "server")


def _not_deferred(tool: Any) -> Any:
    """Removes `defer_loading` from a tool and from those in its namespace."""
    if not isinstance(tool, Mapping):
        return tool
    shown = {name: value for name, value in tool.items() if name != "defer_loading"}
    if isinstance(shown.get("tools"), list):
        shown["tools"] = [_not_deferred(inner) for inner in shown["tools"]]
    return shown
