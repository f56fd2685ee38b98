"""The body of POST /v1/chat/completions: what it may say.

Only its own spelling is checked here. What it comes to is a create request (antiphon_edge.chat.requests), checked as
one. As in request.py, what is not declared is refused, and what is declared and not served as well.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError

from antiphon_core import limits, unserved
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_core.request_errors import TAG, from_validation
from antiphon_core.request_models import Exact, Open, json_kind, type_tag
from antiphon_core.unserved import Unserved, anything

# ---- Messages ----


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
    """What each role needs of it is checked where it becomes items. `name` is taken, and shown to no model."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: ChatContent | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: Annotated[list[ChatCall], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    tool_call_id: str | None = None
    name: str | None = None


# ---- Tools, and the form of the answer ----


class ChatFunctionTool(Exact):
    type: Literal["function"]
    function: Object


class ChatCustomTool(Exact):
    type: Literal["custom"]
    custom: Object


ChatTool = Annotated[
    Annotated[ChatFunctionTool, Tag(TAG + "function")] | Annotated[ChatCustomTool, Tag(TAG + "custom")],
    Discriminator(type_tag),
]


class ChatFunctionChoice(Exact):
    type: Literal["function"]
    function: Object


class ChatCustomChoice(Exact):
    type: Literal["custom"]
    custom: Object


class ChatAllowed(Exact):
    mode: Literal["auto", "required"]
    tools: list[Object]


class ChatAllowedChoice(Exact):
    type: Literal["allowed_tools"]
    allowed_tools: ChatAllowed


def _choice_tag(value: object) -> str | None:
    return TAG + "string" if isinstance(value, str) else type_tag(value)


ChatChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TAG + "string")]
    | Annotated[ChatFunctionChoice, Tag(TAG + "function")]
    | Annotated[ChatCustomChoice, Tag(TAG + "custom")]
    | Annotated[ChatAllowedChoice, Tag(TAG + "allowed_tools")],
    Discriminator(_choice_tag),
]


class ChatPlainFormat(Exact):
    type: Literal["text", "json_object"]


class ChatSchemaFormat(Exact):
    type: Literal["json_schema"]
    json_schema: Object


def _format_tag(value: object) -> str | None:
    tag = type_tag(value)
    return TAG + "text" if tag == TAG + "json_object" else tag


ChatFormat = Annotated[
    Annotated[ChatPlainFormat, Tag(TAG + "text")] | Annotated[ChatSchemaFormat, Tag(TAG + "json_schema")],
    Discriminator(_format_tag),
]


class ChatStreamOptions(Exact):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


# ---- The request ----


class ChatRequest(Exact):
    """A whole request. Members that create requests have by the same name are checked there."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=limits.INPUT_ITEMS_MAX)]
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    n: int | None = None

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: (
        Annotated[
            Annotated[str, Tag(TAG + "string")] | Annotated[list[str], Tag(TAG + "array")], Discriminator(json_kind)
        ]
        | None
    ) = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    nvext: Object | None = None

    tools: Annotated[list[ChatTool], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    tool_choice: ChatChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ChatFormat | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None

    metadata: Object | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    modalities: list[str] | None = None
    logit_bias: Object | None = None
    audio: Object | None = None
    prediction: Object | None = None
    web_search_options: Object | None = None
    functions: list[Object] | None = None
    function_call: Any = None

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The request in a JSON body. InvalidRequest: `field` is the path of the culprit."""
        given = parse_object(body)
        try:
            request = cls.model_validate(given)
        except ValidationError as error:
            raise from_validation(error) from error
        _refuse_unserved(request)
        if request.top_logprobs is not None and not request.logprobs:
            message = "Invalid value for 'top_logprobs': they are given with 'logprobs': true."
            raise InvalidRequest(message, field="top_logprobs", code="invalid_value")
        return request


_UNSERVED: tuple[Unserved, ...] = (
    Unserved(
        "n",
        lambda n: n != 1,
        "Invalid value for 'n': this server gives one choice per request. Leave 'n' out, and ask again for more.",
        "unsupported_value",
    ),
    Unserved(
        "store", bool, "Unsupported parameter: 'store'. What /v1/responses makes is kept, chat completions are not."
    ),
    Unserved(
        "modalities",
        lambda given: given != ["text"],
        "Invalid value for 'modalities': models of this server write text only.",
        "unsupported_value",
    ),
    Unserved("logit_bias", bool, "Unsupported parameter: 'logit_bias'."),
    Unserved("audio", anything, "Unsupported parameter: 'audio'. Models of this server write text only."),
    Unserved("prediction", anything, "Unsupported parameter: 'prediction'."),
    Unserved("web_search_options", anything, "Unsupported parameter: 'web_search_options'."),
    Unserved("functions", bool, "Unsupported parameter: 'functions'. Use 'tools'."),
    Unserved("function_call", bool, "Unsupported parameter: 'function_call'. Use 'tool_choice'."),
)


def _refuse_unserved(request: ChatRequest) -> None:
    """Raises InvalidRequest for the first thing asked for that is not served."""
    unserved.refuse(_UNSERVED, request)
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("'stream_options' needs 'stream': true.", field="stream_options", code="invalid_value")
    if None not in (request.max_tokens, request.max_completion_tokens):
        raise InvalidRequest(
            "'max_tokens' is the old name of 'max_completion_tokens': give one of them.",
            field="max_tokens",
            code="mutually_exclusive_parameters",
        )
