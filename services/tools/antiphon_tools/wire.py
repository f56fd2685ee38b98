"""Converts between the values of the port of tools and its gRPC messages, for server and client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.errors import InvalidRequest, ServiceFault
from antiphon_core.ports.tools import (
    Approval,
    CallError,
    Credentials,
    Listing,
    Outcome,
    Progress,
    Tool,
    ToolCall,
    ToolResult,
    ToolServer,
)
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_protos.antiphon.tools import v1

_APPROVAL = {
    Approval.NEVER: v1.Approval.NEVER,
    Approval.CLIENT: v1.Approval.CLIENT,
    Approval.ALWAYS: v1.Approval.ALWAYS,
}
_FROM_APPROVAL = {number: approval for approval, number in _APPROVAL.items()}
_OUTCOME = {outcome: v1.Outcome[outcome.name] for outcome in Outcome}
_FROM_OUTCOME = {number: outcome for outcome, number in _OUTCOME.items()}


def server_message(server: ToolServer) -> Any:
    return v1.ToolServer(label=server.label, url=server.url)


def server_value(message: Any) -> ToolServer:
    """InvalidRequest: the server is missing."""
    if message is None:
        raise InvalidRequest("Missing required parameter: 'server'.", field="server", code="missing_required_parameter")
    return ToolServer(message.label, message.url)


def credentials_message(credentials: Credentials) -> Any:
    headers = [v1.Header(name=name, value=value) for name, value in credentials.headers]
    return v1.Credentials(authorization=credentials.authorization, headers=headers)


def credentials_value(message: Any) -> Credentials:
    if message is None:
        return Credentials()
    return Credentials(message.authorization, tuple((each.name, each.value) for each in message.headers))


def listing_message(listing: Listing) -> Any:
    return v1.ListToolsResponse(
        identity=listing.identity,
        tools=[_tool_message(tool) for tool in listing.tools],
        approval=_APPROVAL[listing.approval],
        is_parallel=listing.is_parallel,
    )


def listing_value(message: Any) -> Listing:
    """ServiceFault: the approval is unknown. A caller that guessed might run calls unasked."""
    approval = _FROM_APPROVAL.get(message.approval)
    if approval is None:
        raise ServiceFault("The tools service answered with an unknown rule for approvals.")
    return Listing(message.identity, tuple(map(_tool_value, message.tools)), approval, message.is_parallel)


def _tool_message(tool: Tool) -> Any:
    return v1.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        digest=tool.digest,
        is_read_only=tool.is_read_only,
        is_repeatable=tool.is_repeatable,
    )


def _tool_value(message: Any) -> Tool:
    return Tool(
        message.name,
        message.description,
        message.input_schema,
        message.output_schema,
        message.annotations,
        message.digest,
        message.is_read_only,
        message.is_repeatable,
    )


def call_message(call: ToolCall, *, attach: bool = False) -> Any:
    return v1.CallToolRequest(
        id=call.id,
        server=server_message(call.server),
        tool=call.tool,
        arguments=call.arguments,
        digest=call.digest,
        credentials=credentials_message(call.credentials),
        timeout_ms=round(call.timeout_s * 1_000),
        attach=attach,
    )


def call_value(message: Any) -> ToolCall:
    """InvalidRequest: the server is missing."""
    return ToolCall(
        message.id,
        server_value(message.server),
        message.tool,
        message.arguments,
        message.digest,
        credentials_value(message.credentials),
        message.timeout_ms / 1_000,
    )


def progress_message(progress: Progress) -> Any:
    inner = v1.Progress(value=progress.value, total=progress.total, message=progress.message)
    return v1.CallToolResponse(progress=inner)


def progress_value(message: Any) -> Progress:
    return Progress(message.value, message.total, message.message)


def result_message(result: ToolResult) -> Any:
    error = result.error
    inner = v1.ToolResult(
        outcome=_OUTCOME[result.outcome],
        text=result.text,
        images=list(result.images),
        structured=result.structured,
        error=None if error is None else v1.CallError(code=error.code, message=error.message),
    )
    return v1.CallToolResponse(result=inner)


def result_value(message: Any) -> ToolResult:
    """An outcome that this release does not know is UNKNOWN: the call may have run."""
    error = message.error
    return ToolResult(
        _FROM_OUTCOME.get(message.outcome, Outcome.UNKNOWN),
        message.text,
        tuple(message.images),
        message.structured,
        None if error is None else CallError(error.code, error.message),
    )


def search_message(query: SearchQuery, timeout_s: float) -> Any:
    return v1.SearchRequest(
        text=query.text,
        count=query.count,
        domains=list(query.domains),
        country=query.country,
        timeout_ms=round(timeout_s * 1_000),
    )


def search_value(message: Any) -> SearchQuery:
    return SearchQuery(message.text, message.count, tuple(message.domains), message.country)


def hits_message(hits: Sequence[SearchHit]) -> Any:
    return v1.SearchResponse(
        hits=[v1.SearchHit(url=hit.url, title=hit.title, text=hit.text, date=hit.date) for hit in hits]
    )


def hits_value(message: Any) -> tuple[SearchHit, ...]:
    return tuple(SearchHit(hit.url, hit.title, hit.text, hit.date) for hit in message.hits)
