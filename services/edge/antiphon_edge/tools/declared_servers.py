"""The tool servers that a request declares, and the credentials that came with the request.

Credentials are beside the turn and never in it: the turn is stored, repeated in the response and logged. So a turn that
another process continues has the credentials of the request that let it continue, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import NO_CREDENTIALS, Credentials, ToolServer
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import WEB_SEARCH
from antiphon_core.request.server_tools import McpTool
from antiphon_core.request.web_search import WebSearchTool

_NO_CREDENTIALS: Object = {"authorization": None, "headers": None}


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


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The tools of a request that this server runs, and how often it may call them."""

    servers: Sequence[DeclaredServer] = ()
    search: WebSearchTool | None = None
    """The search of the web; the first one of several."""
    calls_max: int | None = None
    """`max_tool_calls` of the request."""
    is_serial: bool = False
    """Whether calls run one after the other."""

    @classmethod
    def of(cls, request: CreateRequest) -> DeclaredTools:
        """The tools of a validated request, without the credentials of its servers (`credentials_of`)."""
        return cls(
            [
                DeclaredServer(f"tools[{index}]", tool.model_copy(update=_NO_CREDENTIALS))
                for index, tool in enumerate(request.tools or ())
                if isinstance(tool, McpTool)
            ],
            next((tool for tool in request.tools or () if isinstance(tool, WebSearchTool)), None),
            request.max_tool_calls,
            request.parallel_tool_calls is False,
        )

    @classmethod
    def read(cls, parameters: Object) -> DeclaredTools:
        """The tools in the JSON of a request that was accepted before. It has no credentials."""
        tools: list[Object] = parameters.get("tools") or []
        servers = [
            DeclaredServer(f"tools[{index}]", McpTool.model_validate(tool))
            for index, tool in enumerate(tools)
            if tool.get("type") == "mcp"
        ]
        search = next((WebSearchTool.model_validate(tool) for tool in tools if tool.get("type") in WEB_SEARCH), None)
        return cls(servers, search, parameters.get("max_tool_calls"), parameters.get("parallel_tool_calls") is False)

    def with_credentials(self, credentials: Mapping[str, Credentials]) -> Sequence[DeclaredServer]:
        """The servers, with credentials by label."""
        return [replace(each, credentials=credentials.get(each.label, NO_CREDENTIALS)) for each in self.servers]

    def __bool__(self) -> bool:
        """Whether there is any tool that this server runs."""
        return bool(self.servers) or self.search is not None


NO_TOOLS = DeclaredTools()


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
