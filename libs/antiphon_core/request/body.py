"""The body of POST /v1/responses: what it may say.

`Parameters` declares everything but the input, `CreateRequest` adds the input (request/items.py); both refuse what they
do not know. Tools are in request/tools.py, the form of an answer in request/text.py, small objects in
request/options.py. How a finding becomes an error with OpenAI's code and the path of the culprit is request/errors.py's
business; what is well-formed but not served is refused by `refuse_unserved`, so that nothing a caller asked for is
dropped in silence.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError

from antiphon_core import limits, unserved
from antiphon_core.jsons import Object, parse_object, work_bytes
from antiphon_core.request import hosted_tools
from antiphon_core.request.context import ContextManagement
from antiphon_core.request.errors import TAG, from_validation
from antiphon_core.request.extensions import Extensions, Seed, StopTexts
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.models import AsGiven, Body, Open, json_kind
from antiphon_core.request.options import (
    BackgroundOptions,
    ImageOptions,
    PromptCacheOptions,
    Reasoning,
    ServiceTier,
    StreamOptions,
)
from antiphon_core.request.previous import PreviousResponse, refuse_two_histories
from antiphon_core.request.prompts import PromptRef
from antiphon_core.request.text import Text, refuse_chat_spelling
from antiphon_core.request.tools import Tool, ToolChoice
from antiphon_core.unserved import Unserved, anything

Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=limits.METADATA_KEY_CHARS_MAX)],
        Annotated[str, Field(max_length=limits.METADATA_VALUE_CHARS_MAX)],
    ],
    Field(max_length=limits.METADATA_PAIRS_MAX),
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
"""The values of `include`. OUTPUT_LOGPROBS and sealed reasoning add something; most of the others are about items that
this server does not make."""

_NO_EXTENSIONS = Extensions()


class ConversationRef(Open):
    id: str


class Parameters(Body):
    """Everything that a create request can say besides its input."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    """The name of a model, as `/v1/models` lists it."""
    instructions: str | None = None
    """Instructions that the model reads before everything else. They hold for this response only: a response that
    continues it has to bring its own."""
    previous_response_id: str | None = None
    """The stored response that this one continues. Several may continue the same one: responses form trees."""
    previous_response: PreviousResponse | None = None
    """An extension: the whole response that this one continues, as its client kept it. For what is not stored,
    and so has no id that finds it."""
    conversation: (
        Annotated[
            Annotated[str, Tag(TAG + "string")] | Annotated[ConversationRef, Tag(TAG + "object")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """The conversation that this response continues and is added to, by its id."""
    store: bool | None = None
    """`false`: nothing of the response is kept, and its id finds nothing. Otherwise it is kept."""
    stream: bool | None = None
    """Whether to answer with events as they come, or with the whole response at its end."""
    background: bool | None = None
    """Whether to answer at once, with a response that is queued for a worker. It can be read, followed and cancelled by
    its id."""
    stream_options: StreamOptions | None = None
    """How events are sent."""
    include: list[Include] | None = None
    """Parts to add to the response: log probabilities of its text, a sealed copy of its reasoning. The other values add
    nothing."""
    metadata: Metadata | None = None
    """Up to 16 texts by name, kept with the response. No model reads them."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """How freely tokens are chosen; 0 takes the most likely one each time. Left out, the value is what the model
    recommends, or else 1."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Tokens are chosen among the most likely ones, which together are this likely. Left out, as for `temperature`."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """How much less likely a token becomes once it has been written."""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """How much less likely a token becomes each time that it is written."""
    top_logprobs: Annotated[int, Field(ge=0, le=limits.TOP_LOGPROBS_MAX)] | None = None
    """How many alternatives to each token are told, where `include` asks for log probabilities."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that the output may have, reasoning included. A response that is cut off there is `incomplete`."""
    seed: Seed | None = None
    """An extension, as chat completions have it: the same seed makes the same choices, as far as the engine
    can."""
    stop: (
        Annotated[
            Annotated[str, Field(min_length=1, max_length=limits.STOP_TEXT_CHARS_MAX), Tag(TAG + "string")]
            | Annotated[StopTexts, Tag(TAG + "array")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    """An extension, as chat completions have it: each of these texts ends the answer, and is not part of it."""
    nvext: Extensions | None = None
    """An extension: sampling and guides that OpenAI has no members for."""
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    """Echoed: it is about tools that run on the server, and none does here."""
    truncation: Literal["auto", "disabled"] | None = None
    """Handling of a history that is longer than the model's context: `auto` leaves the oldest turns out; `disabled`,
    which is the default, refuses it."""

    tools: Annotated[list[Tool], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    """Tools that the model may call. The caller runs them and brings their results with the next request."""
    tool_choice: ToolChoice | None = None
    """Whether a tool must be called, and which may be."""
    parallel_tool_calls: bool | None = None
    """With `false` the response ends with its first call."""
    text: Text | None = None
    """The form of the answer: free, any JSON object, or one of a schema."""
    reasoning: Reasoning | None = None
    """How much the model is to think."""

    user: str | None = None
    """Echoed."""
    safety_identifier: Annotated[str, Field(max_length=limits.SAFETY_IDENTIFIER_CHARS_MAX)] | None = None
    """Echoed."""
    prompt_cache_key: str | None = None
    """Where a model has several servers, requests with the same key go to the same one: its cache has what they
    share."""
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    """The longest time that a cache may last. Engines cache in memory, and the response says so."""
    prompt_cache_options: PromptCacheOptions | None = None
    """Hints about the engine's cache."""
    service_tier: ServiceTier | None = None
    """All are accepted, and none makes a difference: the response says `default`."""
    client_metadata: Object | None = None
    """Accepted, because Codex sends it; not used."""
    context_management: Annotated[list[ContextManagement], Field(max_length=1)] | None = None
    """Has a response begin with a compaction when its prompt is long."""
    prompt: PromptRef | None = None
    """A stored prompt, whose messages come before the input."""
    moderation: Object | None = None
    """Not served: refused."""
    access_programs: Object | None = None
    """Not served: refused."""
    image: ImageOptions | None = None
    """How images are shown."""
    background_options: BackgroundOptions | None = None
    """When a background response is to run."""
    dropped_tools: list[str] | None = None
    """An extension, and the server's own to set: the types of hosted tools that were left out of the request, where the
    operator has them dropped."""

    def asked(self) -> Object:
        """The parameters that were given, as JSON values, without the input; a conversation and a previous response by
        their ids."""
        named: Object = {"conversation": {"id": self.conversation_id}} if self.conversation is not None else {}
        if self.previous_response is not None:
            named["previous_response_id"] = self.previous_response.id
        return self.model_dump(exclude_none=True, exclude={"input", "conversation", "previous_response"}) | named

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the response continues, in whichever form it was named."""
        return self.conversation.id if isinstance(self.conversation, ConversationRef) else self.conversation

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Each of them ends the answer."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def extensions(self) -> Extensions:
        return self.nvext or _NO_EXTENSIONS

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The request in a JSON body. InvalidRequest: `field` is the path of the culprit."""
        return cls.of(parse_object(body), work_bytes=work_bytes(body))

    @classmethod
    def of(cls, given: Object, *, work_bytes: int) -> Self:
        """The request in a JSON object, as `parse`. `work_bytes` are those of its JSON."""
        refuse_chat_spelling(given)
        try:
            request = cls.model_validate(given)
        except ValidationError as error:
            raise from_validation(error) from error
        refuse_unserved(request)
        return request.with_work(work_bytes)


Input = Annotated[
    Annotated[
        Annotated[str, Tag(TAG + "string")]
        | Annotated[
            Annotated[list[Item], Field(max_length=limits.INPUT_ITEMS_MAX)],
            Tag(TAG + "array"),
        ],
        Discriminator(json_kind),
    ],
    AsGiven,
]


class CreateRequest(Parameters):
    """A whole create request. `input_given` is the input as the client wrote it, members not declared included."""

    input: Input
    """Input for the model: a text of the user's, or items. With a `prompt` it may be left out."""

    @property
    def input_given(self) -> str | list[Object]:
        return self.input if isinstance(self.input, str) else items_given(self.input)

    @classmethod
    def parse(cls, body: bytes, *, drops_hosted: bool = False) -> Self:
        """The request in a JSON body. With `drops_hosted` hosted tools are left out of it, and named in
        `dropped_tools`. InvalidRequest: `field` is the path of the culprit."""
        return cls.of(parse_object(body), work_bytes=work_bytes(body), drops_hosted=drops_hosted)

    @classmethod
    def of(cls, given: Object, *, work_bytes: int, drops_hosted: bool = False) -> Self:
        """The request in a JSON object, as `parse`. `work_bytes` are those of its JSON."""
        hosted_tools.refuse_note(given)
        if given.get("prompt") is not None:
            given = {"input": []} | given  # the prompt may say everything
        return super().of(hosted_tools.dropped(given) if drops_hosted else given, work_bytes=work_bytes)


class CountRequest(CreateRequest):
    """A request to count the tokens of a prompt: a create request that need not say anything new."""

    input: Annotated[Input, BeforeValidator(lambda given: [] if given is None else given)] = Field(default_factory=list)
    """As in a create request, and may be left out."""
    personality: Annotated[str, Field(max_length=limits.PERSONALITY_CHARS_MAX)] | None = None
    """Accepted: no model here has a style of its own, so it adds no tokens."""

    def asked(self) -> Object:
        return {name: value for name, value in super().asked().items() if name != "personality"}


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
        "prompt_cache_options.prewarm",
        bool,
        "Unsupported parameter: 'prompt_cache_options.prewarm'. Over a WebSocket it is served, as 'generate': false.",
    ),
    Unserved(
        "prompt_cache_options.ttl",
        anything,
        "Unsupported parameter: 'prompt_cache_options.ttl'. The engine decides how long it caches a prompt.",
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


def refuse_unserved(request: Parameters) -> None:
    """Raises InvalidRequest for the first thing asked for that is not served."""
    unserved.refuse(_UNSERVED, request)
    refuse_two_histories(
        previous_response_id=request.previous_response_id,
        previous_response=request.previous_response,
        conversation=request.conversation,
    )
    formatted = request.text is not None and request.text.format is not None and request.text.format.type != "text"
    request.extensions.require_one_guide(["text.format"] if formatted else [])
