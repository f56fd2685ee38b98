"""Items of tools that a server runs: calls with their results, lists of tools, and approvals of calls.

A client sends them back as the history of a conversation. They shape the prompt only: whether a call may run is decided
by lists of tools and by approvals that this server wrote itself.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.ports.web_search import SEARCH_HITS_MAX
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import ItemId, Open

LISTING, CALL, SEARCH = "mcp_list_tools", "mcp_call", "web_search_call"
REQUEST, RESPONSE = "mcp_approval_request", "mcp_approval_response"
PARALLEL_WITH = "parallel_with"
"""The member of a call with the id of the first call of its round, if that is another one."""

ServerLabel = Annotated[
    str,
    Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_-]*$", max_length=limits.TOOL_SERVER_CHARS_MAX),
]
ServerToolName = Annotated[str, Field(min_length=1, max_length=limits.SERVER_TOOL_NAME_CHARS_MAX)]


class ListedTool(Open):
    """A tool of a tool server."""

    name: ServerToolName
    description: str | None = None
    """The purpose of the tool, as the model reads it."""
    input_schema: Object
    """A JSON schema of its arguments."""
    annotations: Object | None = None
    """Properties of the tool by its server, such as `read_only`."""


class McpListTools(Open):
    """The tools of a tool server. A conversation gets it again only when it differs from the one
    that it has. The server is asked for each response: only its answer says which calls may run."""

    type: Literal["mcp_list_tools"]
    server_label: ServerLabel
    tools: Annotated[list[ListedTool], AtMost(limits.TOOLS_ITEMS_MAX)]
    error: Any = None
    """Why the server gave no list."""
    id: ItemId | None = None


class _McpCall(Open):
    """The common members of a call and of a request to approve one."""

    server_label: ServerLabel
    """The server of the tool."""
    name: ServerToolName
    """The name of the called tool."""
    arguments: str
    """The arguments as JSON text, as the model wrote it."""
    id: ItemId | None = None


class McpCall(_McpCall):
    """A call of a tool of a tool server, with its result."""

    type: Literal["mcp_call"]
    status: Literal["in_progress", "calling", "completed", "incomplete", "failed"] | None = None
    output: str | None = None
    """The result, as the model reads it."""
    error: str | Object | None = None
    """Why there is no result: an object with a `type`, or a text, as older clients have it."""
    approval_request_id: ItemId | None = None
    """The id of the request that approved the call."""
    parallel_with: ItemId | None = None
    """The id of the first call that the model made together with this one."""


class McpApprovalRequest(_McpCall):
    """A call that waits for an approval."""

    type: Literal["mcp_approval_request"]


class McpApprovalResponse(Open):
    """A person's answer to an approval request."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Annotated[ItemId, Field(min_length=1)]
    """The id of the request."""
    is_approved: Annotated[bool, Field(alias="approve")]
    reason: str | None = None
    """The reason, which the model reads if the call is not approved."""
    id: ItemId | None = None


class WebSearchCall(Open):
    """A web search. The model is shown one that this server ran, which has `results`."""

    type: Literal["web_search_call"]
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None
    action: Object | None = None
    """The search, or the page that was opened or searched."""
    results: Annotated[list[Object], AtMost(SEARCH_HITS_MAX)] | None = None
    """The results, which the model reads: `url`, `title`, `text` and `date` of each."""
    error: Object | None = None
    """Why there are no results: its `message` is for the model."""
    parallel_with: ItemId | None = None
    """The id of the first call that the model made together with this one."""
    id: ItemId | None = None
