"""Items as a request may bring them: what was said, what was called, what came of it.

Each type of item is checked by the model named after it. Types that exist and are not listed are refused as not
supported, others as misspelt (request/errors.py). Members that are not declared are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.context import (
    COMPACTION,
    CONFIGURATION,
    TRIGGER,
    Compaction,
    CompactionTrigger,
    ConfigurationUpdate,
)
from antiphon_core.request.errors import TAG
from antiphon_core.request.models import Open, json_kind

REFERENCE = "item_reference"

PASSED_OVER = ("web_search_call", "file_search_call", "tool_search_call", "tool_search_output", "mcp_list_tools")
"""Item types of other servers' tools in a client's history: they are kept, and not shown to a model."""

CallId = Annotated[str, Field(min_length=1, max_length=limits.CALL_ID_CHARS_MAX)]
_Status = Literal["in_progress", "completed", "incomplete"]


def _part_tag(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") is None:
        return None
    given = str(value["type"])
    return TAG + {"output_text": "text", "input_text": "text"}.get(given, given)


def _item_tag(value: object) -> str | None:
    """Which model an item is checked by. A message needs no type."""
    if not isinstance(value, dict):
        return None
    given = str(value.get("type") or _untyped(value))
    return TAG + ("passed_over" if given in PASSED_OVER else given)


def _untyped(item: Object) -> str:
    """The type of an item that names none: a message in its short form, or a mere reference."""
    return "message" if "role" in item or "content" in item or "id" not in item else REFERENCE


# ---- Content ----


class TextPart(Open):
    type: Literal["input_text", "output_text", "text"]
    text: str


class RefusalPart(Open):
    type: Literal["refusal"]
    refusal: str


class ThoughtPart(Open):
    type: Literal["reasoning_text", "summary_text"]
    text: str


def _refuse_file_id(given: str | None) -> None:
    if given is not None:
        raise PydanticCustomError(
            "unsupported_parameter", "There is no Files API on this server, so no file has an id here"
        )


FileId = Annotated[str | None, AfterValidator(_refuse_file_id)]


class ImagePart(Open):
    """An image by a data: or https URL."""

    type: Literal["input_image"]
    file_id: FileId = None
    """Not served: there is no Files API here."""
    image_url: str
    """A `data:` or https URL."""
    detail: Literal["low", "high", "auto", "original"] | None = None
    """How closely to look at it, for engines that can be told."""


class FilePart(Open):
    """A file by its content, a data: URL, or by an https URL."""

    type: Literal["input_file"]
    file_id: FileId = None
    """Not served: there is no Files API here."""
    file_data: str | None = None
    """The content as a `data:` URL."""
    file_url: str | None = None
    """An https URL, in place of the content."""
    filename: Annotated[str, Field(max_length=limits.FILE_NAME_CHARS_MAX)] | None = None
    """The name of the file, as the model reads it."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.file_data is None and self.file_url is None:
            raise PydanticCustomError("missing_required_parameter", "Either 'file_data' or 'file_url' is needed")
        if self.file_data is not None and self.file_url is not None:
            raise PydanticCustomError("mutually_exclusive_parameters", "'file_data' and 'file_url' exclude each other")
        return self


Part = Annotated[
    Annotated[TextPart, Tag(TAG + "text")]
    | Annotated[RefusalPart, Tag(TAG + "refusal")]
    | Annotated[ImagePart, Tag(TAG + "input_image")]
    | Annotated[FilePart, Tag(TAG + "input_file")],
    Discriminator(_part_tag),
]
Content = Annotated[
    Annotated[str, Tag(TAG + "string")] | Annotated[list[Part], Tag(TAG + "array")],
    Discriminator(json_kind),
]


# ---- Items ----


class Message(Open):
    """An input message, in full or in the short form without `type`."""

    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    """The author of the message."""
    content: Content
    """A text, or parts."""
    id: str | None = None
    status: _Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None
    """Whether an assistant's message is its answer, or was said on the way there."""


class FunctionCall(Open):
    type: Literal["function_call"]
    call_id: CallId
    """By what its output refers to it."""
    name: str
    """Which function is called."""
    arguments: str
    """JSON, as the model wrote it."""
    namespace: str | None = None
    """The namespace that the function is in."""
    id: str | None = None
    status: _Status | None = None


class FunctionCallOutput(Open):
    type: Literal["function_call_output"]
    call_id: CallId
    """The id of the call that this is the output of."""
    output: Content
    """The output, as the model reads it."""
    id: str | None = None
    status: _Status | None = None


class CustomToolCall(Open):
    type: Literal["custom_tool_call"]
    call_id: CallId
    """By what its output refers to it."""
    name: str
    """Which tool is called."""
    input: str
    """As the model wrote it."""
    namespace: str | None = None
    """The namespace that the tool is in."""
    id: str | None = None


class CustomToolCallOutput(Open):
    type: Literal["custom_tool_call_output"]
    call_id: CallId
    """The id of the call that this is the output of."""
    output: Content
    """The output, as the model reads it."""
    id: str | None = None


class ReasoningItem(Open):
    """The reasoning of a model. Its `encrypted_content` is checked where it is opened."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[ThoughtPart] | None = None
    content: list[ThoughtPart] | None = None
    """The thoughts themselves."""
    encrypted_content: str | None = None
    """The thoughts as this server sealed them. It opens them where `content` is not there."""
    status: _Status | None = None


class AdditionalTools(Open):
    """Tools that join those of the request; each is checked where all tools of a turn are known."""

    type: Literal["additional_tools"]
    tools: Annotated[list[Object], Field(max_length=limits.TOOLS_ITEMS_MAX)]
    id: str | None = None


class ItemReference(Open):
    """An item that any stored response of the tenant has."""

    type: Literal["item_reference"] | None = None
    id: Annotated[str, Field(min_length=1, max_length=limits.ITEM_ID_CHARS_MAX)]


class PassedOver(Open):
    type: Literal["web_search_call", "file_search_call", "tool_search_call", "tool_search_output", "mcp_list_tools"]
    id: str | None = None


Item = Annotated[
    Annotated[Message, Tag(TAG + "message")]
    | Annotated[FunctionCall, Tag(TAG + "function_call")]
    | Annotated[FunctionCallOutput, Tag(TAG + "function_call_output")]
    | Annotated[CustomToolCall, Tag(TAG + "custom_tool_call")]
    | Annotated[CustomToolCallOutput, Tag(TAG + "custom_tool_call_output")]
    | Annotated[ReasoningItem, Tag(TAG + "reasoning")]
    | Annotated[AdditionalTools, Tag(TAG + "additional_tools")]
    | Annotated[Compaction, Tag(TAG + COMPACTION)]
    | Annotated[CompactionTrigger, Tag(TAG + TRIGGER)]
    | Annotated[ConfigurationUpdate, Tag(TAG + CONFIGURATION)]
    | Annotated[ItemReference, Tag(TAG + REFERENCE)]
    | Annotated[PassedOver, Tag(TAG + "passed_over")],
    Discriminator(_item_tag),
]


def items_given(items: Sequence[Any]) -> list[Object]:
    """Checked items as they were written; a reference says that it is one."""
    return [item if item.get("type") or _untyped(item) != REFERENCE else item | {"type": REFERENCE} for item in items]
