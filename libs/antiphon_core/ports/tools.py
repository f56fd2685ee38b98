"""The port of tools that run on tool servers, which speak MCP: listing the tools of a server, and calling one.

A tool may have side effects, and MCP has no idempotency. So a call is sent to its server at most once, and its outcome
says whether it was sent. The caller decides whether to call again, by the outcome and by `Tool.is_repeatable`. No layer
below the caller repeats a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol

from antiphon_core import jsons, limits
from antiphon_core.ports.checks import Tenant, bytes_up_to, fitting, utf8_length
from antiphon_core.ports.web_search import WebSearch

DECLARED_LABEL = r"^[a-zA-Z][a-zA-Z0-9-]*(_[a-zA-Z0-9-]+)*$"
"""The label of a server that a request declares or an operator configures. The model sees LABEL__NAME. With two
underscores in a row, or one at the end, the tool of one server could have the name of another server's tool and get its
calls: `a` and `b__c` beside `a__b` and `c`."""


class Outcome(StrEnum):
    """How a call ended. Only a call that ended as NOT_SENT, or of a tool that is repeatable, may be made again."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    """The tool ran and reports an error, which is for the model."""
    PROTOCOL_ERROR = "protocol_error"
    """The server answered with a JSON-RPC error, or with an answer that cannot be used. `CallError.code` is the
    JSON-RPC code. The tool may have run."""
    HTTP_ERROR = "http_error"
    """The server answered with an HTTP status, which `CallError.code` has. The tool may have run."""
    REFUSED = "refused"
    """The call was not sent, and would not be the next time: the tool does not exist, is not permitted here, or is
    another one than `ToolCall.digest` names."""
    NOT_SENT = "not_sent"
    """No byte of the call was written: its server could not be reached in time."""
    UNKNOWN = "unknown"
    """The call was sent, and has no answer: the connection broke, or the time was over. The tool may have run, in whole
    or in part."""


class Approval(StrEnum):
    """The operator's rule for calls of a server. The stricter one of this and the request's own rule counts."""

    NEVER = "never"
    """The operator requires no approval. A request needs a rule of its own to ask for one."""
    CLIENT = "client"
    """The request's rule counts."""
    ALWAYS = "always"


def _is_label(text: str) -> bool:
    return 0 < len(text) <= limits.TOOL_SERVER_CHARS_MAX and text.isprintable()


Label = Annotated[str, fitting(_is_label, f"1 to {limits.TOOL_SERVER_CHARS_MAX} printable characters")]
CallId = Annotated[
    str, fitting(lambda text: 0 < utf8_length(text) <= limits.TOOL_CALL_ID_BYTES_MAX, "the id of a call")
]
Arguments = Annotated[bytes, bytes_up_to(limits.TOOL_ARGUMENTS_BYTES_MAX, "The arguments of the call are")]


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A tool server as a request names it. Without `url` it is the operator's server that is called `label`."""

    label: Label
    url: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets that a request has for one tool server. They are neither stored nor logged, and sent to its URL only.
    `authorization` is an OAuth token without a scheme."""

    authorization: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


NO_CREDENTIALS = Credentials()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a server. `input_schema`, `output_schema` and `annotations` are JSON objects; an empty one is
    missing. `annotations` are the server's claims, which nothing may rely on: `is_read_only` and `is_repeatable` repeat
    those that the operator trusts."""

    name: str
    description: str = ""
    input_schema: bytes = b"{}"
    output_schema: bytes = b""
    annotations: bytes = b""
    digest: str = ""
    """The `digest_of` the tool as its server defines it."""
    is_read_only: bool = False
    is_repeatable: bool = False
    """Whether a call whose outcome is unknown may be made again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server that the tenant may use, in the server's order. `identity` names the server and its URL: an
    approval is bound to it, and not to a label. `is_parallel`: several calls may run at once."""

    identity: str
    tools: tuple[Tool, ...]
    approval: Approval = Approval.CLIENT
    is_parallel: bool = True


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `id` is unique for ever, such as RESPONSE_ID/CALL_ID: a second call with the id and the same content
    attaches to the first one while its result is known. `digest` is that of the tool which the model or an approval
    saw; empty accepts any. `timeout_s` is the time from now until its end."""

    id: CallId
    server: ToolServer
    tool: str
    arguments: Arguments
    digest: str = ""
    credentials: Credentials = NO_CREDENTIALS
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a call has no result. `message` can be shown to the client and to the model."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The end of a call. `text` and `images` are what the model reads of the result, bounded; an image is a data: URL.
    `structured` is the JSON of a structured result, empty if there is none or if it is too large. `error` is given
    unless the outcome is OK or TOOL_ERROR."""

    outcome: Outcome
    text: str = ""
    images: tuple[str, ...] = ()
    structured: bytes = b""
    error: CallError | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A server's report on a running call."""

    value: float
    total: float | None = None
    message: str = ""


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Takes the reports of a call whose caller does not need them."""


class Tools(WebSearch, Protocol):
    """InvalidRequest: the request may not use this server, or the server is unknown; `field` is the member of the
    `mcp` tool that is wrong, such as `server_url`. ToolsUnavailable: the service that runs tools cannot be reached."""

    async def list_tools(
        self,
        tenant: Tenant,
        server: ToolServer,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        timeout_s: float = 30.0,
    ) -> Listing:
        """The tools of a server. The answer may be a few minutes old. Repeatable.

        ToolServerFault: the server could not be reached in time, or did not answer as MCP says."""

    async def call_tool(self, tenant: Tenant, call: ToolCall, on_progress: OnProgress = ignore_progress) -> ToolResult:
        """Calls a tool, at most once. Cancelling tells the server, and the outcome is unknown then.

        ToolsUnavailable is raised only if the call was not begun; a service that is lost later makes the outcome
        UNKNOWN, and so does an earlier call with this id and other content, which may have run."""

    async def ready(self) -> None:
        """Returns if calls can be made. ToolsUnavailable."""


def digest_of(definition: jsons.Object) -> str:
    """The SHA-256 of a tool as MCP lists it: of its name, description, schemas and annotations, as canonical JSON. A
    digest without the description would miss a tool whose instructions to the model were replaced."""
    members = ("name", "description", "inputSchema", "outputSchema", "annotations")
    given: dict[str, Any] = {name: definition[name] for name in members if definition.get(name) is not None}
    return hashlib.sha256(jsons.canonical(given)).hexdigest()
