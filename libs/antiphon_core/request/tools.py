"""Tools, and the choice among them, as a request may declare them.

Functions and custom tools are the caller's own; a namespace groups some of them. Hosted tools are rejected by name,
unless the operator has them dropped (request/hosted_tools.py). Whether a choice names a tool that is offered is decided
where all tools of a turn are known (antiphon_translator.prompt.tools).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.models import Exact, Open, type_tag

ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=limits.TOOL_NAME_CHARS_MAX)]

CLIENT_RUN = ("shell", "local_shell", "apply_patch", "computer")
"""Types of tools that OpenAI defines and the caller runs."""


def _tool_tag(value: object) -> str | None:
    tag = type_tag(value)
    return TAG + "client" if tag in {TAG + name for name in CLIENT_RUN[1:]} else tag


def _refuse_deferred(given: bool | None) -> bool | None:
    if given:
        raise PydanticCustomError(
            "unsupported_parameter", "There is no tool search on this server, so no tool can wait to be found"
        )
    return given


def _require_direct(given: list[str] | None) -> list[str] | None:
    if given and "direct" not in given:
        raise PydanticCustomError(
            "unsupported_parameter", "No programs run on this server, so a tool can be called directly or not at all"
        )
    return given


class CalledDirectly(Open):
    """A tool that the model calls and the caller runs."""

    allowed_callers: Annotated[list[Literal["direct", "programmatic"]], AfterValidator(_require_direct)] | None = None
    """Must have `direct`, the only way of calling here."""


class CallableTool(CalledDirectly):
    """Members of every tool that the caller defines."""

    name: ToolName
    async_: Annotated[bool | None, Field(alias="async")] = None
    """Whether a call may wait for its output while the conversation goes on."""
    defer_loading: Annotated[bool | None, AfterValidator(_refuse_deferred)] = None
    """`true` is rejected: there is no tool search here, so every tool is shown from the beginning."""


class FunctionTool(CallableTool):
    type: Literal["function"]
    description: str | None = None
    """The purpose of the tool, as the model reads it."""
    parameters: Object | None = None
    """A JSON schema of its arguments."""
    strict: bool | None = None
    """Whether the schema has to keep OpenAI's rules for strict ones. With `false` a call that is forced is held to
    JSON, and not to the schema."""
    output_schema: Object | None = None
    """A JSON schema of its output, for programs that call it; none run here, and a model reads the output itself."""


class PlainInput(Exact):
    type: Literal["text"]


class GrammarInput(Exact):
    """A text that a grammar describes. When a call is held to it is custom_formats.py's business."""

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
    """The form of its input; without it, any text."""


class Skill(Open):
    """Instructions that lie in a folder of the user's."""

    name: str
    description: str
    path: str


class LocalEnvironment(Open):
    """The user's own machine."""

    type: Literal["local"]
    skills: list[Skill] | None = None
    """The model is told of them."""


def _refuse_containers(given: Any) -> Any:
    if isinstance(given, dict) and str(given.get("type")).startswith("container_"):
        raise PydanticCustomError("unsupported_parameter", "There are no containers on this server")
    return given


class ShellTool(CalledDirectly):
    """Commands that the caller runs for the model."""

    type: Literal["shell"]
    environment: Annotated[LocalEnvironment | None, BeforeValidator(_refuse_containers)] = None
    """Where they run: `local`. There are no containers here."""


class PlainClientTool(CalledDirectly):
    """A tool without members of its own: one shell command, a patch, actions on a screen."""

    type: Literal["local_shell", "apply_patch", "computer"]


OwnTool = Annotated[
    Annotated[FunctionTool, Tag(TAG + "function")] | Annotated[CustomTool, Tag(TAG + "custom")],
    Discriminator(type_tag),
]


class NamespaceTool(Open):
    type: Literal["namespace"]
    name: ToolName
    description: str | None = None
    """Accepted: a model is shown what each tool says of itself."""
    tools: Annotated[list[OwnTool], Field(max_length=limits.TOOLS_ITEMS_MAX)]


Tool = Annotated[
    Annotated[FunctionTool, Tag(TAG + "function")]
    | Annotated[CustomTool, Tag(TAG + "custom")]
    | Annotated[NamespaceTool, Tag(TAG + "namespace")]
    | Annotated[ShellTool, Tag(TAG + "shell")]
    | Annotated[PlainClientTool, Tag(TAG + "client")],
    Discriminator(_tool_tag),
]


class NamedChoice(Open):
    """This tool, and no other."""

    type: Literal["function", "custom"]
    name: ToolName


class ClientChoice(Open):
    """This tool of OpenAI's that the caller runs, and no other."""

    type: Literal["shell", "local_shell", "apply_patch", "computer"]


class AllowedTools(Open):
    """These tools; one of them must be called when the mode is `required`."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    """`required`: one of them must be called."""
    tools: Annotated[list[Object], Field(min_length=1, max_length=limits.TOOLS_ITEMS_MAX)]
    """Tools of the request, by type and name."""


def _choice_tag(value: object) -> str | None:
    if isinstance(value, str):
        return TAG + "string"
    tag = type_tag(value)
    if tag in {TAG + name for name in CLIENT_RUN}:
        return TAG + "client"
    return TAG + "named" if tag in (TAG + "function", TAG + "custom") else tag


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TAG + "string")]
    | Annotated[NamedChoice, Tag(TAG + "named")]
    | Annotated[ClientChoice, Tag(TAG + "client")]
    | Annotated[AllowedTools, Tag(TAG + "allowed_tools")],
    Discriminator(_choice_tag),
]
