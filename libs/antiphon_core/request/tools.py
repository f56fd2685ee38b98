"""Tools, and the choice among them, as a request may declare them.

Functions and custom tools are the caller's own; a namespace groups some of them. Hosted tools that clients send by
habit (`web_search`, `tool_search`) are accepted and never shown to a model; all others are refused by name. Whether a
choice names a tool that is offered is decided where all tools of a turn are known (antiphon_translator.prompt.tools).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Discriminator, Field, Tag

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.models import Exact, Open, type_tag

ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=limits.TOOL_NAME_CHARS_MAX)]

_Hidden = Literal[
    "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "tool_search"
]
HIDDEN_TOOLS = get_args(_Hidden)


def _tool_tag(value: object) -> str | None:
    tag = type_tag(value)
    return TAG + "hidden" if tag in {TAG + hidden for hidden in HIDDEN_TOOLS} else tag


class FunctionTool(Open):
    type: Literal["function"]
    name: ToolName
    description: str | None = None
    """The purpose of the tool, as the model reads it."""
    parameters: Object | None = None
    """A JSON schema of its arguments."""
    strict: bool | None = None
    """Whether the schema has to keep OpenAI's rules for strict ones. With `false` a call that is forced is held to
    JSON, and not to the schema."""


class PlainInput(Exact):
    type: Literal["text"]


class GrammarInput(Exact):
    """A text that a grammar describes. When a call is held to it is custom_formats.py's business."""

    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)]


class CustomTool(Open):
    """A tool whose input is one text."""

    type: Literal["custom"]
    name: ToolName
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


class HiddenTool(Open):
    """Accepted, because clients send it whatever the server can do; no model ever hears of it."""

    type: _Hidden


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
    | Annotated[HiddenTool, Tag(TAG + "hidden")],
    Discriminator(_tool_tag),
]


class NamedChoice(Open):
    """This tool, and no other."""

    type: Literal["function", "custom"]
    name: ToolName


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
    return TAG + "named" if tag in (TAG + "function", TAG + "custom") else tag


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TAG + "string")]
    | Annotated[NamedChoice, Tag(TAG + "named")]
    | Annotated[AllowedTools, Tag(TAG + "allowed_tools")],
    Discriminator(_choice_tag),
]
