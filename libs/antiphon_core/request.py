"""The body of POST /v1/responses: what it may say.

`Parameters` declares everything but the input, `CreateRequest` adds the input (request_items.py); both refuse what they
do not know. Tools are in request_tools.py, the form of an answer in request_text.py, small objects in
request_options.py. How a finding becomes an error with OpenAI's code and the path of the culprit is request_errors.py's
business; what is well-formed but not served is refused by `refuse_unserved`, so that nothing a caller asked for is
dropped in silence.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError

from antiphon_core import limits, unserved
from antiphon_core.jsons import Object, parse_object
from antiphon_core.request_context import ContextManagement
from antiphon_core.request_errors import TAG, from_validation
from antiphon_core.request_extensions import Extensions, Seed, StopTexts
from antiphon_core.request_items import Item
from antiphon_core.request_models import Exact, Open, json_kind
from antiphon_core.request_options import ImageOptions, PromptCacheOptions, Reasoning, ServiceTier, StreamOptions
from antiphon_core.request_previous import PreviousResponse, as_given, refuse_two_histories
from antiphon_core.request_text import Text, refuse_chat_spelling
from antiphon_core.request_tools import Tool, ToolChoice
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
"""What a response can be asked to hold besides. OUTPUT_LOGPROBS and sealed reasoning add something: of the others, most
speak of items that this server does not make."""

_NO_EXTENSIONS = Extensions()


class ConversationRef(Open):
    id: str


class Parameters(Exact):
    """Everything that a create request can say besides its input."""

    model: Annotated[str, Field(min_length=1, max_length=limits.MODEL_NAME_CHARS_MAX)]
    instructions: str | None = None
    previous_response_id: str | None = None
    previous_response: PreviousResponse | None = None  # an extension: the whole object instead of its id
    conversation: (
        Annotated[
            Annotated[str, Tag(TAG + "string")] | Annotated[ConversationRef, Tag(TAG + "object")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    stream_options: StreamOptions | None = None
    include: list[Include] | None = None
    metadata: Metadata | None = None

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=limits.TOP_LOGPROBS_MAX)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: Seed | None = None  # as chat completions have it, like `stop`
    stop: (
        Annotated[
            Annotated[str, Field(min_length=1, max_length=limits.STOP_TEXT_CHARS_MAX), Tag(TAG + "string")]
            | Annotated[StopTexts, Tag(TAG + "array")],
            Discriminator(json_kind),
        ]
        | None
    ) = None
    nvext: Extensions | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    truncation: Literal["auto", "disabled"] | None = None

    tools: Annotated[list[Tool], Field(max_length=limits.TOOLS_ITEMS_MAX)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None

    user: str | None = None
    safety_identifier: Annotated[str, Field(max_length=limits.SAFETY_IDENTIFIER_CHARS_MAX)] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    service_tier: ServiceTier | None = None
    client_metadata: Object | None = None  # Codex sends it: accepted, not used
    context_management: Annotated[list[ContextManagement], Field(max_length=1)] | None = None
    prompt: Object | None = None
    moderation: Object | None = None
    access_programs: Object | None = None
    image: ImageOptions | None = None

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
        return cls.of(parse_object(body))

    @classmethod
    def of(cls, given: Object) -> Self:
        """The request in a JSON object, as `parse`."""
        refuse_chat_spelling(given)
        try:
            request = cls.model_validate(given)
        except ValidationError as error:
            raise from_validation(error) from error
        refuse_unserved(request)
        return request


Input = Annotated[
    Annotated[str, Tag(TAG + "string")]
    | Annotated[
        Annotated[list[Item], Field(max_length=limits.INPUT_ITEMS_MAX)],
        Tag(TAG + "array"),
    ],
    Discriminator(json_kind),
]


class CreateRequest(Parameters):
    """A whole create request. `input_given` is the input as the client wrote it, members not declared included."""

    input: Input

    @property
    def input_given(self) -> str | list[Object]:
        if isinstance(self.input, str):
            return self.input
        return [as_given(item) for item in self.input]


class CountRequest(CreateRequest):
    """What a prompt is counted of: a create request that need not say anything new. No model here has a style of its
    own, so a `personality` adds no tokens."""

    input: Annotated[Input, BeforeValidator(lambda given: [] if given is None else given)] = Field(default_factory=list)
    personality: Annotated[str, Field(max_length=limits.PERSONALITY_CHARS_MAX)] | None = None

    def asked(self) -> Object:
        return {name: value for name, value in super().asked().items() if name != "personality"}


_UNSERVED: tuple[Unserved, ...] = (
    Unserved("prompt", anything, "Unsupported parameter: 'prompt'. This server keeps no prompt templates."),
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
