"""The parameters `tools` and `tool_choice`.

Functions and custom tools are defined by the client; a namespace groups some of them. Hosted tools are rejected, unless
the operator has them removed (request/hosted_tools.py). Whether `tool_choice` names an existing tool, and whether a
deferred tool can be found, is checked when all tools of a turn are known (antiphon_translator.prompt.tools).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG, types_tag
from antiphon_core.request.hosted_tools import WEB_SEARCH, is_hosted
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Exact, Open, type_tag
from antiphon_core.request.server_tools import McpTool, ServerChoice
from antiphon_core.request.web_search import SearchChoice, WebSearchTool

ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=limits.TOOL_NAME_CHARS_MAX)]

SEARCH = "tool_search"
_PLAIN = ("local_shell", "apply_patch", "computer")
CLIENT_RUN = ("shell", *_PLAIN, SEARCH)
"""Types of tools that OpenAI defines and the client runs."""
_PLAIN_TAG = types_tag(_PLAIN)
_CLIENT_TAG = types_tag(CLIENT_RUN)
_NAMED_TAG = types_tag(["function", "custom"])
_WEB_TAG = types_tag(sorted(WEB_SEARCH))


def _tool_tag(value: object) -> str | None:
    tag = type_tag(value)
    if tag in {TAG + name for name in WEB_SEARCH}:
        return _WEB_TAG
    return _PLAIN_TAG if tag in {TAG + name for name in _PLAIN} else tag


def _require_direct(given: list[str] | None) -> list[str] | None:
    if given and "direct" not in given:
        raise PydanticCustomError(
            "unsupported_parameter", "No programs run on this server, so a tool can be called directly or not at all"
        )
    return given


class CalledDirectly(Open):
    """A tool that the model calls directly and the client runs."""

    allowed_callers: (
        Annotated[
            list[Literal["direct", "programmatic"]],
            AtMost(limits.CALLERS_ITEMS_MAX),
            AfterValidator(_require_direct),
        ]
        | None
    ) = None
    """Must include `direct`: no programs run on this server."""


class CallableTool(CalledDirectly):
    """The common members of tools that the client defines."""

    name: ToolName
    async_: Annotated[bool | None, Field(alias="async")] = None
    """Whether the conversation may go on before the client sends the output of a call."""
    defer_loading: bool | None = None
    """Whether the model is shown the tool only when a `tool_search` of the client has found it."""


class FunctionTool(CallableTool):
    type: Literal["function"]
    description: str | None = None
    """The purpose of the tool, as the model reads it."""
    parameters: Object | None = None
    """A JSON schema of its arguments."""
    strict: bool | None = None
    """Whether the schema must keep OpenAI's rules for strict schemas. With `false` a forced call is constrained to
    JSON, but not to the schema."""
    output_schema: Object | None = None
    """A JSON schema of the output, for programs that call the tool. No effect, because none run on this server."""


class PlainInput(Exact):
    type: Literal["text"]


class GrammarInput(Exact):
    """A text that matches a grammar. The translator decides which calls are constrained to it (custom_formats.py)."""

    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)]


class CustomTool(CallableTool):
    """A tool whose input is one text."""

    type: Literal["custom"]
    description: str | None = None
    """The purpose of the tool, as the model reads it."""
    format: (
        Annotated[
            Annotated[PlainInput, Tag(TAG + "text")] | Annotated[GrammarInput, Tag(TAG + "grammar")],
            Discriminator(type_tag),
        ]
        | None
    ) = None
    """The form of the input; the default is any text."""


class Skill(Open):
    """Instructions in a folder on the user's machine."""

    name: str
    description: str
    path: str


class LocalEnvironment(Open):
    """The user's own machine."""

    type: Literal["local"]
    skills: Annotated[list[Skill], AtMost(limits.SKILLS_ITEMS_MAX)] | None = None
    """Skills that are listed in the prompt."""


def _reject_containers(given: Any) -> Any:
    if isinstance(given, dict) and str(given.get("type")).startswith("container_"):
        raise PydanticCustomError("unsupported_parameter", "There are no containers on this server")
    return given


class ShellTool(CalledDirectly):
    """A shell in which the client runs the model's commands."""

    type: Literal["shell"]
    environment: Annotated[LocalEnvironment | None, BeforeValidator(_reject_containers)] = None
    """Where commands run. Only `local` is supported: this server has no containers."""


class PlainClientTool(CalledDirectly):
    """A tool without further members: a local shell, patches of files, or actions on a screen."""

    type: Literal["local_shell", "apply_patch", "computer"]


class ToolSearchTool(Open):
    """A search for further tools, which the client runs."""

    type: Literal["tool_search"]
    execution: Literal["client"]
    """Must be `client`: a search by the server is a hosted tool."""
    description: str | None = None
    """The purpose of the search, as the model reads it."""
    parameters: Object | None = None
    """A JSON schema of its arguments. The default is an object with the text `query`."""

    @model_validator(mode="before")
    @classmethod
    def _reject_hosted(cls, given: Any) -> Any:
        if is_hosted(given):
            raise PydanticCustomError("hosted_tool", "A hosted tool")
        return given


ClientDefinedTool = Annotated[
    Annotated[FunctionTool, Tag(TAG + "function")] | Annotated[CustomTool, Tag(TAG + "custom")],
    Discriminator(type_tag),
]


class NamespaceTool(Open):
    type: Literal["namespace"]
    name: ToolName
    description: str | None = None
    """Accepted, but not shown to the model, which sees the descriptions of the tools."""
    tools: Annotated[list[ClientDefinedTool], AtMost(limits.TOOLS_ITEMS_MAX)]


Tool = Annotated[
    Annotated[FunctionTool, Tag(TAG + "function")]
    | Annotated[CustomTool, Tag(TAG + "custom")]
    | Annotated[NamespaceTool, Tag(TAG + "namespace")]
    | Annotated[ShellTool, Tag(TAG + "shell")]
    | Annotated[PlainClientTool, Tag(_PLAIN_TAG)]
    | Annotated[ToolSearchTool, Tag(TAG + SEARCH)]
    | Annotated[McpTool, Tag(TAG + "mcp")]
    | Annotated[WebSearchTool, Tag(_WEB_TAG)],
    Discriminator(_tool_tag),
]


class NamedChoice(Open):
    """Forces a call of this tool."""

    type: Literal["function", "custom"]
    name: ToolName


class ClientChoice(Open):
    """Forces a call of this tool, one that OpenAI defines and the client runs."""

    type: Literal["shell", "local_shell", "apply_patch", "computer", "tool_search"]


class AllowedTools(Open):
    """Restricts calls to these tools."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    """`required`: the model must call one of them."""
    tools: Annotated[list[Object], Field(min_length=1), AtMost(limits.TOOLS_ITEMS_MAX)]
    """Tools of the request, by type and name."""


def _choice_tag(value: object) -> str | None:
    if isinstance(value, str):
        return TAG + "string"
    tag = type_tag(value)
    if tag in {TAG + name for name in CLIENT_RUN}:
        return _CLIENT_TAG
    if tag in {TAG + name for name in WEB_SEARCH}:
        return _WEB_TAG
    return _NAMED_TAG if tag in (TAG + "function", TAG + "custom") else tag


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TAG + "string")]
    | Annotated[NamedChoice, Tag(_NAMED_TAG)]
    | Annotated[ClientChoice, Tag(_CLIENT_TAG)]
    | Annotated[ServerChoice, Tag(TAG + "mcp")]
    | Annotated[SearchChoice, Tag(_WEB_TAG)]
    | Annotated[AllowedTools, Tag(TAG + "allowed_tools")],
    Discriminator(_choice_tag),
]
