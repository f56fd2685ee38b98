"""The body of POST /v1/chat/completions.

This module and body_messages.py validate only the members of chat completions. The body is then translated to a
create request (requests.py) and validated as one. As in antiphon_core.request, unknown members and unsupported
features are rejected.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Body, Exact, json_kind, type_tag
from antiphon_core.request.rejections import (
    IN_CHAT,
    Unserved,
    anything,
    reject_misplaced,
    reject_server_set,
    reject_unserved,
)
from antiphon_edge.chat.body_messages import ChatMessage, reject_unserved_members

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
    tools: Annotated[list[Object], AtMost(limits.TOOLS_ITEMS_MAX)]


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
    """Whether the last chunk has the usage."""
    include_obfuscation: bool | None = None
    """Accepted; changes nothing: obfuscation is never added."""


# ---- The request ----


class ChatRequest(Body):
    """A request for a chat completion. Members that a create request also has are validated as part of that request."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    """The name of a model, as `/v1/models` lists it."""
    messages: Annotated[list[ChatMessage], Field(min_length=1), AtMost(limits.INPUT_ITEMS_MAX)]
    """The whole conversation so far. Chat completions are not stored."""
    stream: bool | None = None
    """Whether to stream chunks while the answer is generated."""
    stream_options: ChatStreamOptions | None = None
    """Options of the stream."""
    n: int | None = None
    """Only 1 is supported: one choice for each request."""

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The limit of output tokens, reasoning included."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The old name of `max_completion_tokens`; give only one of them."""
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
            Annotated[str, Tag(TAG + "string")]
            | Annotated[list[str], AtMost(limits.STOP_TEXTS_ITEMS_MAX), Tag(TAG + "array")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """Stop sequences. Each ends the answer, and is not part of it."""
    logprobs: bool | None = None
    """Whether to return the log probabilities of the text's tokens."""
    top_logprobs: int | None = None
    """The number of alternatives to return for each token, 20 at most; needs `logprobs`."""
    nvext: Object | None = None
    """The `Extensions` of a create request."""

    tools: Annotated[list[ChatTool], AtMost(limits.TOOLS_ITEMS_MAX)] | None = None
    """Tools that the model may call. The client runs them and sends their results with the next request."""
    tool_choice: ChatChoice | None = None
    """Whether the model must call a tool, and which tools it may call."""
    parallel_tool_calls: bool | None = None
    """Whether there may be several calls; with `false` there is one at most."""
    response_format: ChatFormat | None = None
    """The form of the answer: free text, any JSON object, or JSON of a schema."""
    reasoning_effort: str | None = None
    """How much the model should reason, as `reasoning.effort` in a create request."""
    verbosity: str | None = None
    """Accepted; changes nothing."""

    metadata: Object | None = None
    """Validated as in a create request; not stored."""
    user: str | None = None
    """Accepted; changes nothing."""
    safety_identifier: str | None = None
    """Accepted; changes nothing."""
    prompt_cache_key: str | None = None
    """As in a create request."""
    prompt_cache_retention: str | None = None
    """Accepted; changes nothing."""
    service_tier: str | None = None
    """Accepted; changes nothing."""
    store: bool | None = None
    """Only `false` is supported: chat completions are not stored."""
    modalities: Annotated[list[str], AtMost(limits.MODALITIES_ITEMS_MAX)] | None = None
    """Only `["text"]` is supported."""
    logit_bias: Object | None = None
    """Not supported: rejected, unless it is empty."""
    audio: Object | None = None
    """Not supported: rejected."""
    prediction: Object | None = None
    """Not supported: rejected."""
    web_search_options: Object | None = None
    """Not supported: rejected."""
    functions: Annotated[list[Object], AtMost(limits.TOOLS_ITEMS_MAX)] | None = None
    """Not supported: use `tools`."""
    function_call: Any = None
    """Not supported: use `tool_choice`."""

    @classmethod
    def of(cls, given: Object, *, work_bytes: int) -> Self:
        reject_misplaced(given, IN_CHAT)
        reject_server_set(given)
        request = super().of(given, work_bytes=work_bytes)
        _require_served(request)
        if request.top_logprobs is not None and not request.logprobs:
            message = "Invalid value for 'top_logprobs': it needs 'logprobs': true."
            raise InvalidRequest(message, field="top_logprobs", code="invalid_value")
        return request


_UNSERVED: tuple[Unserved, ...] = (
    Unserved(
        "n",
        lambda n: n != 1,
        "Invalid value for 'n': this server gives one choice per request. Leave out 'n', and send a request for each "
        "choice.",
        "unsupported_value",
    ),
    Unserved("store", bool, "Unsupported parameter: 'store'. Chat completions are not stored; use /v1/responses."),
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


def _require_served(request: ChatRequest) -> None:
    """Raises InvalidRequest for the first unsupported feature, and for parameters that cannot be combined."""
    reject_unserved(_UNSERVED, request)
    reject_unserved_members(request.messages)
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("'stream_options' needs 'stream': true.", field="stream_options", code="invalid_value")
    if None not in (request.max_tokens, request.max_completion_tokens):
        raise InvalidRequest(
            "'max_tokens' is the old name of 'max_completion_tokens': give only one of them.",
            field="max_tokens",
            code="mutually_exclusive_parameters",
        )
