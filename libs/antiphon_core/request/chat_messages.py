"""Messages in requests for chat completions, with their parts and tool calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_core import limits
from antiphon_core.request.errors import TAG
from antiphon_core.request.models import Open, json_kind, type_tag


class ChatText(Open):
    type: Literal["text"]
    text: str


class ChatRefusal(Open):
    type: Literal["refusal"]
    refusal: str


class ChatImageUrl(Open):
    url: str
    detail: Literal["low", "high", "auto", "original"] | None = None


class ChatImage(Open):
    type: Literal["image_url"]
    image_url: ChatImageUrl


class ChatFileContent(Open):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ChatFile(Open):
    type: Literal["file"]
    file: ChatFileContent


ChatPart = Annotated[
    Annotated[ChatText, Tag(TAG + "text")]
    | Annotated[ChatRefusal, Tag(TAG + "refusal")]
    | Annotated[ChatImage, Tag(TAG + "image_url")]
    | Annotated[ChatFile, Tag(TAG + "file")],
    Discriminator(type_tag),
]
ChatContent = Annotated[
    Annotated[str, Tag(TAG + "string")] | Annotated[list[ChatPart], Tag(TAG + "array")], Discriminator(json_kind)
]


class ChatCalledFunction(Open):
    name: str
    arguments: str


class ChatFunctionCall(Open):
    type: Literal["function"]
    id: str
    function: ChatCalledFunction


class ChatCalledCustom(Open):
    name: str
    input: str


class ChatCustomCall(Open):
    type: Literal["custom"]
    id: str
    custom: ChatCalledCustom


ChatCall = Annotated[
    Annotated[ChatFunctionCall, Tag(TAG + "function")] | Annotated[ChatCustomCall, Tag(TAG + "custom")],
    Discriminator(type_tag),
]


class ChatMessage(Open):
    """A message of any role. The members that a role needs are validated when the message is translated to items."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: ChatContent | None = None
    """A text, or parts."""
    refusal: str | None = None
    reasoning_content: str | None = None
    """The reasoning of an assistant before its answer."""
    tool_calls: Annotated[list[ChatCall], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    """The calls that an assistant made."""
    tool_call_id: str | None = None
    """In a message of the role `tool`: the id of the call that it is the result of."""
    name: str | None = None
    """Accepted; not shown to the model."""
