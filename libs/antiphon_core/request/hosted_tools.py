"""Hosted tools, which OpenAI runs on its own servers. Antiphon runs those that the operator has configured.

A request with another hosted tool is rejected, with the path of the tool. For clients that always send such tools, an
operator can have them removed instead (`hosted_tools = "drop"`). The response then lists the types of removed tools in
`dropped_tools` and in a header.

`tool_search` is hosted unless its `execution` is `client`: then the client runs it (request/tools.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object

NOTE = "dropped_tools"
WebSearchName = Literal["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
WEB_SEARCH: frozenset[str] = frozenset(get_args(WebSearchName))
"""The types of the search of the web: all mean the same here."""
HOSTED = frozenset(
    """
    code_interpreter file_search image_generation mcp programmatic_tool_calling tool_search
    """.split()
).union(WEB_SEARCH)
_RUNNABLE = WEB_SEARCH | {"mcp"}
"""The types that this server can run, if its operator configures that."""
NAMING_TOOLS = frozenset({"tools", "tool_choice"})
"""The members that name tools. Besides them, items of the input bring tools."""
_BRINGING_TOOLS = ("additional_tools", "tool_search_output")


@dataclass(frozen=True, slots=True)
class HostedTools:
    """The treatment of hosted tools in requests."""

    run_here: frozenset[str] = frozenset()
    """The types of tools that this server runs."""
    are_dropped: bool = False
    """Whether other hosted tools are removed from requests; otherwise such requests are rejected."""

    def apply(self, given: Object) -> Object:
        """The request body without the tools that are dropped. InvalidRequest: it has a tool server or a search of the
        web, which is not run here. (A hosted tool of another type is rejected when the body is validated.)"""
        if self.are_dropped:
            given = drop_hosted_tools(given, kept=self.run_here)
        for kind in sorted(_RUNNABLE):
            _reject_unless_run(given, kind, kind in self.run_here)
        return given


NONE_RUN_HERE = HostedTools()


def _reject_unless_run(given: Object, kind: str, is_run: bool) -> None:
    for path, tools in _lists(given):
        for index, tool in enumerate(tools):
            if _type(tool) == kind and not (is_run and path == "tools"):
                raise _unsupported_error(f"{path}[{index}]", kind, is_run)
    if not is_run and _type(given.get("tool_choice")) == kind:
        raise _unsupported_error("tool_choice", kind, is_run)


def _unsupported_error(path: str, kind: str, is_run: bool) -> InvalidRequest:
    if is_run:
        message = f"'{path}' is of type '{kind}'. Tools that this server runs are declared in 'tools' of the request."
    else:
        message = hosted_tool_message(path, kind)
    return InvalidRequest(message, field=path, code="unsupported_value")


def hosted_tool_message(path: str, given: str) -> str:
    """The message for a hosted tool of the type `given` at this path, which is not run here."""
    return f"'{path}' is of type '{given}', a hosted tool, which is not supported by this server. {instead_of(given)}"


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


def drop_hosted_tools(given: Object, *, kept: frozenset[str] = frozenset()) -> Object:
    """Removes hosted tools from a request body, also from its items, and adds the list of their types. Those of the
    types `kept` stay.

    Without a search of the client, no tool can be found later. So all tools are shown to the model from the beginning.
    """
    left_out: dict[str, None] = {}
    rest = _with_tools(given, partial(_without_hosted, left_out=left_out, kept=kept))
    if not any(_is_client_search(tool) for _, tools in _lists(rest) for tool in tools):
        rest = _with_tools(rest, lambda tools: [_not_deferred(tool) for tool in tools])
    return rest | {NOTE: list(left_out)} if left_out else rest


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


def _lists(given: Object) -> Iterator[tuple[str, list[Any]]]:
    """The lists of tools in a request body, with their paths."""
    if isinstance(given.get("tools"), list):
        yield "tools", given["tools"]
    if isinstance(given.get("input"), list):
        for index, item in enumerate(given["input"]):
            if _brings_tools(item):
                yield f"input[{index}].tools", item["tools"]


def _brings_tools(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _BRINGING_TOOLS and isinstance(item.get("tools"), list)


def _without_hosted(tools: list[Any], *, left_out: dict[str, None], kept: frozenset[str]) -> list[Any]:
    dropped = [tool for tool in tools if is_hosted(tool) and tool["type"] not in kept]
    left_out.update((tool["type"], None) for tool in dropped)
    return [tool for tool in tools if tool not in dropped]


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
