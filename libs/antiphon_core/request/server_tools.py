"""Declarations of tool servers: the tool `mcp`, and the choice of its tools.

Credentials come with each request, and are in no serialized form of it: not in the record, the echo, the job or the
fingerprint (`authorization` and `headers` are excluded from every dump).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from antiphon_core import limits
from antiphon_core.ports.tools import DECLARED_LABEL
from antiphon_core.request.errors import TAG
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Exact, Open, json_kind
from antiphon_core.request.server_items import ServerLabel, ServerToolName

ToolNames = Annotated[list[ServerToolName], AtMost(limits.TOOLS_ITEMS_MAX)]


class ToolFilter(Exact):
    """Selects tools of a server: those with these names, of those that only read."""

    tool_names: ToolNames | None = None
    read_only: bool | None = None
    """Whether the server says of the tool that it only reads."""

    def selects(self, name: str, *, is_read_only: bool) -> bool:
        """Whether the filter selects this tool. A filter without members selects every tool."""
        has_name = self.tool_names is None or name in self.tool_names
        return has_name and (self.read_only is None or self.read_only is is_read_only)


class ApprovalFilter(Exact):
    """Which calls need an approval. A tool that neither filter selects needs one."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


def _reject(reason: str) -> AfterValidator:
    def reject(given: Any) -> Any:
        if given:
            raise PydanticCustomError("unsupported_parameter", reason)
        return given

    return AfterValidator(reject)


class McpTool(Open):
    """A tool server, whose tools this server calls by the Model Context Protocol."""

    type: Literal["mcp"]
    server_label: Annotated[str, Field(pattern=DECLARED_LABEL, max_length=limits.TOOL_LABEL_CHARS_MAX)]
    """The name of the server in this request: letters, digits, hyphens, and single underscores between them. Alone, it
    names a server that the operator has configured."""
    server_url: Annotated[str, Field(min_length=1, max_length=limits.URL_BYTES_MAX)] | None = None
    """The address of the server, if the operator allows its host."""
    server_description: str | None = None
    """Accepted, but not shown to the model, which sees the descriptions of the tools."""
    authorization: Annotated[str, Field(max_length=limits.HEADER_BYTES_MAX)] | None = Field(
        default=None, exclude=True, repr=False
    )
    """A token for the server. It must be sent with every request, and is not repeated in the response."""
    headers: Annotated[dict[str, str], AtMost(limits.MEMBERS_ITEMS_MAX)] | None = Field(
        default=None, exclude=True, repr=False
    )
    """Headers for the server. They must be sent with every request, and are not repeated in the response."""
    allowed_tools: (
        Annotated[
            Annotated[ToolNames, Tag(TAG + "array")] | Annotated[ToolFilter, Tag(TAG + "object")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """The tools that the model is shown; the default is all tools of the server."""
    require_approval: (
        Annotated[
            Annotated[Literal["always", "never"], Tag(TAG + "string")] | Annotated[ApprovalFilter, Tag(TAG + "object")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """The calls that need an approval; the default is `always`."""
    connector_id: Annotated[str | None, _reject("This server has no connectors")] = None
    """Not supported: rejected."""
    tunnel_id: Annotated[str | None, _reject("This server has no tunnels")] = None
    """Not supported: rejected."""
    defer_loading: Annotated[bool | None, _reject("Tools of servers are not searched for")] = None
    """`true` is not supported: rejected."""

    def allows(self, name: str, *, is_read_only: bool) -> bool:
        """Whether the model may be shown this tool of the server."""
        match self.allowed_tools:
            case None:
                return True
            case ToolFilter() as chosen:
                return chosen.selects(name, is_read_only=is_read_only)
            case names:
                return name in names


class ServerChoice(Open):
    """Forces a call of a tool of this server, of the one with this name if there is one."""

    type: Literal["mcp"]
    server_label: ServerLabel
    name: ServerToolName | None = None
