"""The body of POST /v1/chat/completions: what it may say.

Only its own spelling is checked here, and that of messages in request/chat_messages.py. What it comes to is a create
request (antiphon_edge.chat.requests), checked as one. As in body.py, what is not declared is refused, and what is
declared and not served as well.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError

from antiphon_core import limits, unserved
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_core.request.chat_messages import ChatMessage
from antiphon_core.request.errors import TAG, from_validation
from antiphon_core.request.models import Exact, json_kind, type_tag
from antiphon_core.unserved import Unserved, anything

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
    """Whether a last chunk tells the usage."""
    include_obfuscation: bool | None = None
    """Accepted: obfuscation is never added."""


# ---- The request ----


class ChatRequest(Exact):
    """A whole request. Members that create requests have by the same name are checked there."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    """The name of a model, as `/v1/models` lists it."""
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=limits.INPUT_ITEMS_MAX)]
    """The whole conversation so far: nothing is kept from one request to the next."""
    stream: bool | None = None
    """Whether to answer with chunks as they come."""
    stream_options: ChatStreamOptions | None = None
    """Options of the stream."""
    n: int | None = None
    """1, or left out: one choice is made for each request."""

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that the answer may have, reasoning included."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The older name of `max_completion_tokens`."""
    temperature: float | None = None
    """0 to 2; as in a create request."""
    top_p: float | None = None
    """0 to 1; as in a create request."""
    presence_penalty: float | None = None
    """-2 to 2; as in a create request."""
    frequency_penalty: float | None = None
    """-2 to 2; as in a create request."""
    seed: int | None = None
    """As in a create request."""
    stop: (
        Annotated[
            Annotated[str, Tag(TAG + "string")] | Annotated[list[str], Tag(TAG + "array")], Discriminator(json_kind)
        ]
        | None
    ) = None
    """Texts that end the answer, and are not part of it."""
    logprobs: bool | None = None
    """Whether the log probabilities of the text's tokens are told."""
    top_logprobs: int | None = None
    """How many alternatives to each token are told, 20 at most; with `logprobs`."""
    nvext: Object | None = None
    """The `Extensions` of a create request."""

    tools: Annotated[list[ChatTool], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    """Tools that the model may call. The caller runs them and brings their results with the next request."""
    tool_choice: ChatChoice | None = None
    """Whether a tool must be called, and which may be."""
    parallel_tool_calls: bool | None = None
    """With `false` there is one call at most."""
    response_format: ChatFormat | None = None
    """The form of the answer: free, any JSON object, or one of a schema."""
    reasoning_effort: str | None = None
    """How much the model is to think."""
    verbosity: str | None = None
    """Accepted; changes nothing."""

    metadata: Object | None = None
    """Checked as in a create request; nothing is kept."""
    user: str | None = None
    """Accepted; changes nothing."""
    safety_identifier: str | None = None
    """Accepted; changes nothing."""
    prompt_cache_key: str | None = None
    """As in a create request."""
    prompt_cache_retention: str | None = None
    """Accepted; changes nothing."""
    service_tier: str | None = None
    """All are accepted, and none makes a difference."""
    store: bool | None = None
    """`false`, or left out: completions are not kept."""
    modalities: list[str] | None = None
    """`["text"]`, or left out: models write text here."""
    logit_bias: Object | None = None
    """Not served: refused, unless it is empty."""
    audio: Object | None = None
    """Not served: refused."""
    prediction: Object | None = None
    """Not served: refused."""
    web_search_options: Object | None = None
    """Not served: refused."""
    functions: list[Object] | None = None
    """Not served: `tools` took its place."""
    function_call: Any = None
    """Not served: `tool_choice` took its place."""

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
