"""Items in requests: messages, tool calls and their outputs, reasoning.

Each type of item has a model for its validation. Other types of the Responses API are rejected as not supported, and
all others as unknown (request/errors.py). Undeclared members of items and parts are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from antiphon_core import limits
from antiphon_core.items import EXTENSION, is_extension
from antiphon_core.jsons import Object
from antiphon_core.request.client_items import (
    CALL_TYPES,
    OUTPUT_TYPES,
    CallId,
    ClientItem,
    FileId,
    Status,
    is_client_item,
)
from antiphon_core.request.context import (
    COMPACTION,
    CONFIGURATION,
    TRIGGER,
    Compaction,
    CompactionTrigger,
    ConfigurationUpdate,
)
from antiphon_core.request.errors import TAG, types_tag
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import ItemId, Open, json_kind
from antiphon_core.request.prompt_cache import CacheBreakpoint
from antiphon_core.request.server_items import (
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    WebSearchCall,
)

REFERENCE = "item_reference"
MODEL_CALL_ID = "model_call_id"
"""The member of a call item with the id that the model gave the call, where a prompt needs it."""
LOCAL_OUTPUT = "local_shell_call_output"

HIDDEN_TYPES = ("file_search_call", "tool_search_call", "tool_search_output")
"""Types of items that other servers' hosted tools have left in a client's history: kept, but not shown to the model.
Searches for tools that the client ran are ClientItems instead."""

_TEXT_TYPES = ("input_text", "output_text")
_TEXT_TAG = types_tag(_TEXT_TYPES)
_HIDDEN_TAG = types_tag(HIDDEN_TYPES)
_CLIENT_TAG = types_tag((*CALL_TYPES, *OUTPUT_TYPES))
_EXTENSION_TAG = types_tag(["VENDOR:TYPE"])


def _part_tag(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") is None:
        return None
    given = str(value["type"])
    return _TEXT_TAG if given in _TEXT_TYPES else TAG + given


def _item_tag(value: object) -> str | None:
    """The tag of the model that validates an item. Messages and references may come without a type."""
    if not isinstance(value, dict):
        return None
    given = str(value.get("type") or _implied_type(value))
    if is_extension(given):
        return _EXTENSION_TAG
    if is_client_item(value):
        return _CLIENT_TAG
    return _HIDDEN_TAG if given in HIDDEN_TYPES else TAG + given


def _implied_type(item: Object) -> str:
    """The type of an item without `type`: a message in its short form, or a reference."""
    return "message" if "role" in item or "content" in item or "id" not in item else REFERENCE


# ---- Content ----


class GivenPart(Open):
    """A content part that a client sends."""

    prompt_cache_breakpoint: CacheBreakpoint | None = None
    """The end of a prefix that other requests share."""


class TextPart(GivenPart):
    type: Literal["input_text", "output_text", "text"]
    text: str


class RefusalPart(Open):
    type: Literal["refusal"]
    refusal: str


class ThoughtPart(Open):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class ImagePart(GivenPart):
    """An image, as a `data:` or https URL."""

    type: Literal["input_image"]
    file_id: FileId = None
    """Not supported: this server has no Files API."""
    image_url: str
    """A `data:` or https URL."""
    detail: Literal["low", "high", "auto", "original"] | None = None
    """The resolution at which the model sees the image, for engines that support it."""


class FilePart(GivenPart):
    """A file, as a `data:` URL with its content or as an https URL."""

    type: Literal["input_file"]
    file_id: FileId = None
    """Not supported: this server has no Files API."""
    file_data: str | None = None
    """The content as a `data:` URL."""
    file_url: str | None = None
    """An https URL of the content."""
    detail: Literal["auto", "low", "high"] | None = None
    """The resolution of rendered pages. No effect: the model gets the text of files."""
    filename: Annotated[str, Field(max_length=limits.FILE_NAME_CHARS_MAX)] | None = None
    """The name of the file, which the model sees."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.file_data is None and self.file_url is None:
            raise PydanticCustomError("missing_required_parameter", "Either 'file_data' or 'file_url' is needed")
        if self.file_data is not None and self.file_url is not None:
            raise PydanticCustomError("mutually_exclusive_parameters", "'file_data' and 'file_url' exclude each other")
        return self


Part = Annotated[
    Annotated[TextPart, Tag(_TEXT_TAG)]
    | Annotated[RefusalPart, Tag(TAG + "refusal")]
    | Annotated[ImagePart, Tag(TAG + "input_image")]
    | Annotated[FilePart, Tag(TAG + "input_file")],
    Discriminator(_part_tag),
]
Content = Annotated[
    Annotated[str, Tag(TAG + "string")] | Annotated[list[Part], AtMost(limits.PARTS_ITEMS_MAX), Tag(TAG + "array")],
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
    id: ItemId | None = None
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None
    """Whether an assistant's message is its final answer or an intermediate comment."""
    name: str | None = None
    """The name of the speaker, which the chat template of the model may show."""


_Async = Annotated[bool | None, Field(alias="async")]


class FunctionCall(Open):
    type: Literal["function_call"]
    async_: _Async = None
    """Whether the conversation may go on before the call's output comes."""
    call_id: CallId
    """The id by which the output refers to the call."""
    name: str
    """The name of the called function."""
    arguments: str
    """The arguments as JSON text, as the model wrote it."""
    namespace: str | None = None
    """The namespace that the function is in."""
    model_call_id: CallId | None = None
    """The id that the model gave the call, as its item had it."""
    id: ItemId | None = None
    status: Status | None = None


class FunctionCallOutput(Open):
    type: Literal["function_call_output"]
    call_id: CallId
    """The id of the call that this is the output of."""
    output: Content
    """The output, as the model reads it."""
    id: ItemId | None = None
    status: Status | None = None


class CustomToolCall(Open):
    type: Literal["custom_tool_call"]
    async_: _Async = None
    """Whether the conversation may go on before the call's output comes."""
    call_id: CallId
    """The id by which the output refers to the call."""
    name: str
    """The name of the called tool."""
    input: str
    """The input as the model wrote it."""
    namespace: str | None = None
    """The namespace that the tool is in."""
    model_call_id: CallId | None = None
    """The id that the model gave the call, as its item had it."""
    id: ItemId | None = None


class CustomToolCallOutput(Open):
    type: Literal["custom_tool_call_output"]
    call_id: CallId
    """The id of the call that this is the output of."""
    output: Content
    """The output, as the model reads it."""
    id: ItemId | None = None


class ReasoningItem(Open):
    """The reasoning of a model. Its `encrypted_content` is validated when it is decrypted."""

    type: Literal["reasoning"]
    id: ItemId | None = None
    summary: Annotated[list[ThoughtPart], AtMost(limits.PARTS_ITEMS_MAX)] | None = None
    content: Annotated[list[ThoughtPart], AtMost(limits.PARTS_ITEMS_MAX)] | None = None
    """The text of the reasoning."""
    encrypted_content: str | None = None
    """The text of the reasoning, encrypted by this server, which decrypts it if `content` is missing."""
    status: Status | None = None


class AdditionalTools(Open):
    """Tools in addition to those of the request. They are validated when all tools of the turn are known."""

    type: Literal["additional_tools"]
    tools: Annotated[list[Object], AtMost(limits.TOOLS_ITEMS_MAX)]
    id: ItemId | None = None


class ItemReference(Open):
    """A reference by id to an item of any stored response or conversation of the tenant."""

    type: Literal["item_reference"] | None = None
    id: Annotated[ItemId, Field(min_length=1)]


class HiddenItem(Open):
    type: Literal["file_search_call", "tool_search_call", "tool_search_output"]
    id: ItemId | None = None


class ExtensionItem(Open):
    """An item of another vendor's type, such as `acme:note`: kept unchanged, and not shown to the model."""

    type: Annotated[str, Field(pattern=rf"^{EXTENSION}$", max_length=limits.ITEM_TYPE_CHARS_MAX)]
    id: Annotated[ItemId, Field(min_length=1)] | None = None


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
    | Annotated[McpListTools, Tag(TAG + "mcp_list_tools")]
    | Annotated[McpCall, Tag(TAG + "mcp_call")]
    | Annotated[McpApprovalRequest, Tag(TAG + "mcp_approval_request")]
    | Annotated[McpApprovalResponse, Tag(TAG + "mcp_approval_response")]
    | Annotated[WebSearchCall, Tag(TAG + "web_search_call")]
    | Annotated[HiddenItem, Tag(_HIDDEN_TAG)]
    | Annotated[ExtensionItem, Tag(_EXTENSION_TAG)]
    | Annotated[ClientItem, Tag(_CLIENT_TAG)],
    Discriminator(_item_tag),
]


def items_given(items: Sequence[Any]) -> list[Object]:
    """Validated items as the client wrote them, except that references without a type get it, outputs of local shells
    the `call_id`, and reasoning the `summary` that the types of OpenAI's SDKs require in every item that is listed.
    Their `id` may be replaced, as that of any item."""
    return [item | more if (more := _with_implied_type(item)) else item for item in items]


def _with_implied_type(item: Object) -> Object:
    if not item.get("type"):
        return {"type": REFERENCE} if _implied_type(item) == REFERENCE else {}
    if item["type"] == LOCAL_OUTPUT and item.get("call_id") is None:
        return {"call_id": item["id"]}
    if item["type"] == "reasoning" and item.get("summary") is None:
        return {"summary": []}
    return {}
