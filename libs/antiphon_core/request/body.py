"""The body of POST /v1/responses.

`Parameters` declares all members but the input, `CreateRequest` adds the input (request/items.py); both reject unknown
members. Tools are in request/tools.py, the form of the answer in request/text.py, small objects in request/options.py.
request/errors.py turns validation errors into errors with OpenAI's code and the path of the wrong member. A valid
request for an unsupported feature is rejected by `reject_unserved`, so that no parameter is ignored silently.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.context import ContextManagement
from antiphon_core.request.errors import TAG
from antiphon_core.request.extensions import Extensions, Seed, StopTexts
from antiphon_core.request.hosted_tools import NAMING_TOOLS, NONE_RUN_HERE, HostedTools
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import AsGiven, Body, Open, json_kind
from antiphon_core.request.options import (
    BackgroundOptions,
    ImageOptions,
    Reasoning,
    ServiceTier,
    StreamOptions,
)
from antiphon_core.request.previous import PreviousResponse
from antiphon_core.request.prompt_cache import PromptCacheOptions
from antiphon_core.request.prompts import PromptRef
from antiphon_core.request.rejections import (
    IN_RESPONSES,
    Unserved,
    anything,
    reject_chat_spelling,
    reject_misplaced,
    reject_server_set,
    reject_two_histories,
    reject_unserved,
)
from antiphon_core.request.text import Text
from antiphon_core.request.tools import Tool, ToolChoice

Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=limits.METADATA_KEY_CHARS_MAX)],
        Annotated[str, Field(max_length=limits.METADATA_VALUE_CHARS_MAX)],
    ],
    AtMost(limits.METADATA_PAIRS_MAX),
]

OUTPUT_LOGPROBS = "message.output_text.logprobs"
Include = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
"""The values of `include`. Only OUTPUT_LOGPROBS and sealed reasoning have an effect; most of the others concern items
that this server does not make."""

_NO_EXTENSIONS = Extensions()


class ConversationRef(Open):
    id: str


class Parameters(Body):
    """The members of a create request, except its input."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    """The name of a model, as `/v1/models` lists it."""
    instructions: str | None = None
    """Instructions that the model reads before everything else. They apply to this response only: a response that
    continues it does not inherit them."""
    previous_response_id: str | None = None
    """The id of the stored response that this one continues. Several responses may continue the same one."""
    previous_response: PreviousResponse | None = None
    """An extension: the whole response that this one continues, as the client received it. For responses that are not
    stored, which cannot be found by `previous_response_id`."""
    conversation: (
        Annotated[
            Annotated[str, Tag(TAG + "string")] | Annotated[ConversationRef, Tag(TAG + "object")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """The id of the conversation that this response continues and is added to."""
    store: bool | None = None
    """Whether to store the response; the default is `true`. A response that is not stored cannot be found by its id."""
    stream: bool | None = None
    """Whether to stream events while the response is generated, or to answer with the whole response at its end."""
    background: bool | None = None
    """Whether to run the response in the background: the answer comes at once, with a queued response that can be read,
    followed and cancelled by its id."""
    stream_options: StreamOptions | None = None
    """Options of the stream."""
    include: Annotated[list[Include], AtMost(limits.INCLUDE_ITEMS_MAX)] | None = None
    """Parts to add to the response: log probabilities of its text, or an encrypted copy of its reasoning. The other
    values have no effect."""
    metadata: Metadata | None = None
    """Up to 16 key-value pairs, stored with the response. They are not shown to the model."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature; 0 always takes the most likely token. The default is the model's recommendation, or
    else 1."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Nucleus sampling: only the most likely tokens, with this total probability, are sampled from. The default is the
    model's recommendation, or else 1."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """A penalty for tokens that have been generated at least once."""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """A penalty for tokens, for each time that they have been generated."""
    top_logprobs: Annotated[int, Field(ge=0, le=limits.TOP_LOGPROBS_MAX)] | None = None
    """The number of alternatives to return for each token, if `include` asks for log probabilities."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """The limit of output tokens, reasoning included. A response that reaches it is `incomplete`."""
    seed: Seed | None = None
    """An extension, as in chat completions: requests with the same seed sample the same tokens, as far as the engine
    allows."""
    stop: (
        Annotated[
            Annotated[str, Field(min_length=1, max_length=limits.STOP_TEXT_CHARS_MAX), Tag(TAG + "string")]
            | Annotated[StopTexts, Tag(TAG + "array")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """An extension, as in chat completions: stop sequences. Each ends the answer, and is not part of it."""
    nvext: Extensions | None = None
    """An extension: parameters of sampling and guided decoding that OpenAI does not have."""
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    """The limit of calls of tools that this server runs, over the whole response. Further calls are not sent."""
    truncation: Literal["auto", "disabled"] | None = None
    """The handling of a history that exceeds the model's context: `auto` leaves out the oldest turns; `disabled`, the
    default, rejects the request."""

    tools: Annotated[list[Tool], AtMost(limits.TOOLS_ITEMS_MAX)] | None = None
    """Tools that the model may call. The client runs them and sends their results with the next request, except those
    of tool servers (`mcp`), which this server calls."""
    tool_choice: ToolChoice | None = None
    """Whether the model must call a tool, and which tools it may call."""
    parallel_tool_calls: bool | None = None
    """Whether a response may have several calls; `false` ends it after the first call."""
    text: Text | None = None
    """The form of the answer: free text, any JSON object, or JSON of a schema."""
    reasoning: Reasoning | None = None
    """Options of the model's reasoning."""

    user: str | None = None
    """Repeated in the response; no effect."""
    safety_identifier: Annotated[str, Field(max_length=limits.SAFETY_IDENTIFIER_CHARS_MAX)] | None = None
    """Repeated in the response; no effect."""
    prompt_cache_key: str | None = None
    """Requests with the same key are sent to the same server of a model, whose cache has their common prefix."""
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    """An older form of `prompt_cache_options.ttl`: `24h` asks for a day, on the same conditions. The response says
    `24h` if the engine was told so, and otherwise `in_memory`."""
    prompt_cache_options: PromptCacheOptions | None = None
    """Hints about the engine's cache, and whether to fill it."""
    service_tier: ServiceTier | None = None
    """All values are accepted without effect: the response says `default`."""
    client_metadata: Object | None = None
    """Accepted, because Codex sends it; not used."""
    context_management: Annotated[list[ContextManagement], AtMost(1)] | None = None
    """Compacts the context before the response if the prompt is long."""
    prompt: PromptRef | None = None
    """A stored prompt, whose messages come before the input."""
    moderation: Object | None = None
    """Not supported: rejected."""
    access_programs: Object | None = None
    """Not supported: rejected."""
    image: ImageOptions | None = None
    """Options of images."""
    background_options: BackgroundOptions | None = None
    """Options of background responses."""
    dropped_tools: Annotated[list[str], AtMost(limits.TOOLS_ITEMS_MAX)] | None = None
    """An extension that only the server sets: the types of hosted tools that were removed from the request, if the
    operator has configured that."""

    def as_json(self) -> Object:
        """The given parameters as JSON values, without the input. A conversation and a previous response are replaced
        by their ids."""
        named: Object = {"conversation": {"id": self.conversation_id}} if self.conversation is not None else {}
        if self.previous_response is not None:
            named["previous_response_id"] = self.previous_response.id
        return self.model_dump(exclude_none=True, exclude={"input", "conversation", "previous_response"}) | named

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation, from either form of the member."""
        return self.conversation.id if isinstance(self.conversation, ConversationRef) else self.conversation

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The stop sequences, from either form of the member."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def extensions(self) -> Extensions:
        return self.nvext or _NO_EXTENSIONS

    @classmethod
    def of(cls, given: Object, *, work_bytes: int) -> Self:
        reject_misplaced(given, IN_RESPONSES)
        if "text" in given:
            reject_chat_spelling(given["text"])
        request = super().of(given, work_bytes=work_bytes)
        _require_served(request)
        return request


Input = Annotated[
    Annotated[
        Annotated[str, Tag(TAG + "string")]
        | Annotated[
            Annotated[list[Item], AtMost(limits.INPUT_ITEMS_MAX)],
            Tag(TAG + "array"),
        ],
        Discriminator(json_kind),
    ],
    AsGiven,
]


class CreateRequest(Parameters):
    """A whole create request. `input_given` is the input as the client wrote it, with undeclared members."""

    input: Input
    """The input for the model: a user's text, or items. With a `prompt` it may be left out."""

    @property
    def input_given(self) -> str | list[Object]:
        return self.input if isinstance(self.input, str) else items_given(self.input)

    @classmethod
    def of(cls, given: Object, *, work_bytes: int, hosted: HostedTools = NONE_RUN_HERE) -> Self:
        """Validates a parsed body as that of any request. `hosted` decides about hosted tools."""
        reject_server_set(given)
        if given.get("prompt") is not None and given.get("input") is None:
            given = given | {"input": []}  # the prompt's messages may be the whole input
        if not isinstance(given.get("input"), str) or not NAMING_TOOLS.isdisjoint(given):
            given = hosted.apply(given)
        return super().of(given, work_bytes=work_bytes)


class CountRequest(CreateRequest):
    """A request to count the tokens of a prompt: a create request whose input may be left out."""

    input: Annotated[Input, BeforeValidator(lambda given: [] if given is None else given)] = Field(default_factory=list)
    """As in a create request, and may be left out."""
    personality: Annotated[str, Field(max_length=limits.PERSONALITY_CHARS_MAX)] | None = None
    """Accepted without effect: it adds no tokens, because no model here has personalities."""

    def as_json(self) -> Object:
        return {name: value for name, value in super().as_json().items() if name != "personality"}


_UNSERVED: tuple[Unserved, ...] = (
    Unserved("moderation", anything, "Unsupported parameter: 'moderation'."),
    Unserved("access_programs", anything, "Unsupported parameter: 'access_programs'."),
    Unserved(
        "image.context_compression",
        lambda given: given == "enabled",
        "Invalid value for 'image.context_compression': images are shown as they are; it must be 'auto' or 'disabled'.",
        "unsupported_value",
    ),
    Unserved(
        "reasoning.mode",
        lambda given: given == "pro",
        "Unsupported value: 'reasoning.mode' must be 'standard'.",
        "unsupported_value",
    ),
    Unserved(
        "background_options.completion_window",
        lambda given: given != "soonest",
        "Unsupported value: 'background_options.completion_window' must be 'soonest': no queue here waits on purpose.",
        "unsupported_value",
    ),
    Unserved(
        "background_options.continuation_id",
        anything,
        "Unsupported parameter: 'background_options.continuation_id'. Background responses run in the order in which "
        "they came.",
    ),
)


def _require_served(request: Parameters) -> None:
    """Raises InvalidRequest for the first unsupported feature, and for parameters that exclude each other."""
    reject_unserved(_UNSERVED, request)
    reject_two_histories(
        previous_response_id=request.previous_response_id,
        previous_response=request.previous_response,
        conversation=request.conversation,
    )
    if request.nvext is None:
        return
    formatted = request.text is not None and request.text.format is not None and request.text.format.type != "text"
    request.nvext.require_one_guide(["text.format"] if formatted else [])
