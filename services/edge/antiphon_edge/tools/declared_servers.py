"""The tool servers that a request declares, and the credentials that came with the request.

Credentials are beside the turn and never in it: the turn is stored, repeated in the response and logged. So a turn that
another process continues has the credentials of the request that let it continue, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.tools import NO_CREDENTIALS, Credentials, ToolServer
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.server_tools import McpTool
from antiphon_core.request.web_search import WEB_SEARCH, WebSearchTool

MARKS = b'"mcp"', b'"web_search'
"""Parts of the JSON of every request that declares servers or a search. They spare most requests the parsing, and
decide nothing: any text of a request may have them."""


@dataclass(frozen=True, slots=True)
class DeclaredServer:
    """A server of a request. `path` is that of its declaration."""

    path: str
    tool: McpTool
    credentials: Credentials = field(default=NO_CREDENTIALS, repr=False)

    @property
    def label(self) -> str:
        return self.tool.server_label

    @property
    def server(self) -> ToolServer:
        return ToolServer(self.label, self.tool.server_url or "")


def has_server_tools(request: bytes) -> bool:
    """Whether the JSON of a request declares tools that this server runs: tool servers, or a search of the web."""
    return bool(_declarations(request)) or declared_search(request) is not None


def declared_search(request: bytes) -> WebSearchTool | None:
    """The search of the web in the JSON of a request; the first one of several."""
    tools: list[Object] = loads(request).get("tools") or []
    return next((WebSearchTool.model_validate(tool) for tool in tools if tool.get("type") in WEB_SEARCH), None)


def declared_servers(request: bytes, credentials: Mapping[str, Credentials]) -> Sequence[DeclaredServer]:
    """The servers in the JSON of a request, with their credentials by label."""
    tools = [(path, McpTool.model_validate(tool)) for path, tool in _declarations(request)]
    return [DeclaredServer(path, tool, credentials.get(tool.server_label, NO_CREDENTIALS)) for path, tool in tools]


def _declarations(request: bytes) -> Sequence[tuple[str, Object]]:
    """The declarations of servers, with their paths."""
    tools: list[Object] = loads(request).get("tools") or []
    return [(f"tools[{index}]", tool) for index, tool in enumerate(tools) if tool.get("type") == "mcp"]


def credentials_of(request: CreateRequest) -> Mapping[str, Credentials]:
    """The credentials in a request, by the labels of their servers."""
    return {
        tool.server_label: Credentials(tool.authorization or "", tuple((tool.headers or {}).items()))
        for tool in request.tools or ()
        if isinstance(tool, McpTool) and (tool.authorization or tool.headers)
    }


def require_callable(request: CreateRequest) -> None:
    """InvalidRequest: two servers have the same label, or the request has something that excludes tools of servers."""
    labels = set[str]()
    for index, tool in enumerate(request.tools or ()):
        if isinstance(tool, WebSearchTool):
            _require_no_compaction(request)
        if not isinstance(tool, McpTool):
            continue
        path = f"tools[{index}]"
        if tool.server_label in labels:
            message = f"Two servers have the label '{tool.server_label}'."
            raise InvalidRequest(message, field=f"{path}.server_label", code="invalid_value")
        labels.add(tool.server_label)
        _require_possible(request, tool, path)


def _require_no_compaction(request: CreateRequest) -> None:
    if request.context_management:
        message = "'context_management' and tools of servers exclude each other: leave one of them out."
        raise InvalidRequest(message, field="context_management", code="mutually_exclusive_parameters")


def _require_possible(request: CreateRequest, tool: McpTool, path: str) -> None:
    _require_no_compaction(request)
    for name in ("authorization", "headers"):
        if request.background and getattr(tool, name):
            message = (
                f"'{path}.{name}' cannot be used in the background: credentials are not stored, and another process "
                "runs the response. Use a server whose credentials the operator has configured, or 'background': false."
            )
            raise InvalidRequest(message, field=f"{path}.{name}", code="unsupported_parameter")
