"""Messages in requests for chat completions, with their parts, reasoning and tool calls.

A member that is content for the model under any server's name for it is used, or rejected by name. Members that no
server reads are ignored, because clients send answers back with everything that their server wrote into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from antiphon_core import limits
from antiphon_core.request.errors import TAG
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Open, json_kind, type_tag
from antiphon_core.request.rejections import Unserved, reject_unserved


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
    Annotated[str, Tag(TAG + "string")] | Annotated[list[ChatPart], AtMost(limits.PARTS_ITEMS_MAX), Tag(TAG + "array")],
    Discriminator(json_kind),
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


class ChatReasoningText(Open):
    type: Literal["reasoning.text"]
    text: str | None = None
    index: int | None = None


class ChatReasoningSummary(Open):
    type: Literal["reasoning.summary"]
    summary: str
    index: int | None = None


class ChatReasoningEncrypted(Open):
    """Reasoning that only the service which wrote it can read. It is not shown to the model."""

    type: Literal["reasoning.encrypted"]


ChatReasoningDetail = Annotated[
    Annotated[ChatReasoningText, Tag(TAG + "reasoning.text")]
    | Annotated[ChatReasoningSummary, Tag(TAG + "reasoning.summary")]
    | Annotated[ChatReasoningEncrypted, Tag(TAG + "reasoning.encrypted")],
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
    reasoning: str | None = None
    """Another name of `reasoning_content`. Where both have a text, it must be the same."""
    thinking: str | None = None
    """Another name of `reasoning_content`."""
    reasoning_details: Annotated[list[ChatReasoningDetail], AtMost(limits.INPUT_ITEMS_MAX)] | None = None
    """The reasoning in OpenRouter's form, used where no other member has it. Encrypted reasoning is left out: only the
    service that wrote it can read it."""
    tool_calls: Annotated[list[ChatCall], AtMost(limits.TOOLS_ITEMS_MAX)] | None = None
    """The calls that an assistant made."""
    tool_call_id: str | None = None
    """In a message of the role `tool`: the id of the call that it is the result of."""
    name: str | None = None
    """The name of the speaker, which the chat template of the model may show. A message of the role `tool` has the name
    of its call instead."""
    prefix: bool | None = None
    """Not supported: rejected, unless it is `false`."""
    audio: Any = None
    """Not supported: rejected."""
    function_call: Any = None
    """Not supported: use `tool_calls`."""


_UNSERVED = (
    Unserved(
        "prefix",
        bool,
        "Unsupported parameter: 'prefix'. Chat completions begin a new message, and do not continue the last one.",
    ),
    Unserved("audio", bool, "Unsupported parameter: 'audio'. Models of this server read and write text only."),
    Unserved("function_call", bool, "Unsupported parameter: 'function_call'. Use 'tool_calls'."),
)


def reject_unserved_members(messages: Sequence[ChatMessage]) -> None:
    """Raises InvalidRequest for the first unsupported member of a message."""
    for index, message in enumerate(messages):
        reject_unserved(_UNSERVED, message, within=f"messages[{index}]")
