"""The requests and results of engines: what to generate, what was generated, and why it ended.

Values only. Engines differ in the form of their input and output, their `Level`; each level has its own prompts and
chunks:

    TOKENS   TokenPrompt, TokenChunk   token ids in and out: exact, and preferred wherever a server offers it
    TEXT     TextPrompt, TextChunk     the rendered prompt in, text out, which is parsed here
    CHAT     ChatPrompt, ChatChunk     messages and tools in; reasoning, text and calls out, which the server parsed
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from antiphon_core.jsons import Object
from antiphon_core.values import value
from antiphon_translator.parsing.segments import Segment
from antiphon_translator.placement import PlacementHint, RootPrefix

UNLIMITED = sys.maxsize
"""The `max_tokens` of a generation whose length only its server limits."""


TOKEN_ID_MAX = 2**32 - 1
"""The largest id that a checkpoint can hold (`token_ids` in translator.proto)."""

REASONING = "reasoning"
"""The member of a message in a ChatPrompt that the engine renames to what its server reads."""

CACHE_SALT = "cache_salt"
"""The control of engines that share no cached prompt between two salts."""

RETENTION = "retention"
"""The control of engines that take a `Retention`. Other engines are sent none."""

SWITCHES = "switches"
"""The control of CHAT engines whose servers take `ChatPrompt.switches`. Other servers are not sent them."""


class Level(Enum):
    """The form of an engine's input and output."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


class FinishReason(Enum):
    """The reason why a generation ended by itself."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    """A filter of the server, such as the guardrails of a NIM, broke the output off."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; None leaves one to the engine. `temperature` 0 means greedy sampling.

    The names of the members are the names of an engine's `controls`.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None


class GuideKind(Enum):
    """The language of a guide; the values are those of TensorRT-LLM's `guided_decoding_guide_type`."""

    JSON = "json"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    EBNF = "ebnf_grammar"


@dataclass(frozen=True, slots=True)
class Guide:
    """A constraint that the output must match from its first token on (guided decoding). `text` is empty for GuideKind
    JSON, which means any JSON.

    `name`, `description` and `strict` are those of a schema in the request, for servers that take them.
    """

    kind: GuideKind
    text: str = ""
    name: str = "output"
    description: str | None = None
    is_strict: bool = True


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """The prompt of a TOKENS engine."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """The prompt of a TEXT engine, and its images in the order of their marks in the text.

    `tokens` is the number of ids of the text: the usage of a turn whose server does not report it. `added` is what a
    server with the model's tokenizer puts before a text by default, such as a BOS token.
    """

    text: str
    tokens: int = 0
    images: tuple[bytes, ...] = ()
    added: str = ""

    @property
    def without_added(self) -> str:
        """The text for a server that puts `added` before it, which most templates write, too: two BOS tokens make the
        answers of many models worse. With images the whole text: some processors of images add nothing to it."""
        return self.text if self.images else self.text.removeprefix(self.added)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """The prompt of a CHAT engine: messages, functions as `tools`, and OpenAI's `tool_choice`.

    The assistant's earlier reasoning is in the member REASONING of its message."""

    messages: Sequence[Object]
    tools: Sequence[Object] = ()
    tool_choice: str | Object | None = None
    switches: Mapping[str, object] | None = None
    """Variables for the chat template of the other server: `chat_template_kwargs`."""
    strict: frozenset[str] = frozenset()
    """The names of the functions whose calls must match their schemas."""


@dataclass(frozen=True, slots=True)
class RetentionRange:
    """How long the KV cache keeps the blocks of the prompt's positions `start` to `end` (None: its end). `priority` is
    0 to 100, the lower the sooner evicted. After `duration_ms` the priority is the engine's default again; None: it
    stays."""

    start: int
    end: int | None
    priority: int
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the KV cache keeps the blocks of a prompt and of its output."""

    ranges: tuple[RetentionRange, ...]
    output_priority: int


Prompt = TokenPrompt | TextPrompt | ChatPrompt
PromptT = TypeVar("PromptT", TokenPrompt, TextPrompt, ChatPrompt)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `request_id` is unique: engines log it, and some stop the generation by it.

    Each of `stop_ids` ends the generation, the model's own end-of-turn id first; so does each text in `stop`, which is
    not part of the output: in the answer or, with `stop_in_reasoning`, in everything that is generated. `stop_tokens`
    are the texts of all `stop_ids` but the first, where these are added tokens of the vocabulary: for an engine of text
    that takes one id only.
    `top_logprobs` is the number of alternatives of each token; None for no log probabilities at all.
    `parallel_calls` says whether the model may write several calls; None leaves it to the server of a CHAT engine.
    Requests with the same `cache_key` are likely to share the beginning of their prompt. The engine shares no cached
    prompt between two values of `cache_salt`; None where tenants are not isolated. Requests of one `conversation` are
    turns of one tree, and `priority` is 0 to 100, the higher the sooner, where other requests have 50: an engine that
    has no use for these two leaves them out. `block_tokens` is the number of tokens in a block of the server's KV
    cache, for servers that count cached blocks; 0 if it is not known, and set by their engine. With `ignore_eos` the
    end-of-turn id is a token like any other, and there are no `stop_ids` and `stop_tokens`.
    `placement` are the caches that hold a beginning of the prompt, the longest beginning first. `root` is the beginning
    that other conversations share. `prompt_tokens` is the length of the prompt, an estimate where its server encodes
    it; 0 if it is not known. `retention` is a hint for the KV cache; None leaves all to the engine.
    With `is_prewarm` the prompt is only read in advance: where other prompts wait, nothing is generated or delivered.
    """

    request_id: str
    prompt: Prompt
    max_tokens: int
    stop_ids: tuple[int, ...] = ()
    stop_tokens: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    stop_in_reasoning: bool = False
    ignore_eos: bool = False
    parallel_calls: bool | None = None
    sampling: Sampling = Sampling()
    guide: Guide | None = None
    top_logprobs: int | None = None
    lora: str | None = None
    cache_key: str | None = None
    cache_salt: str | None = None
    conversation: str | None = None
    priority: int | None = None
    block_tokens: int = 0
    placement: Sequence[PlacementHint] = ()
    prompt_tokens: int = 0
    root: RootPrefix | None = None
    retention: Retention | None = None
    is_prewarm: bool = False

    @property
    def answer_stops(self) -> tuple[str, ...]:
        """The stop texts that the translator searches for in the answer."""
        return () if self.stop_in_reasoning else self.stop

    @property
    def server_stops(self) -> tuple[str, ...]:
        """The stop texts for a server of text, which searches in everything that it generates."""
        return self.stop if self.stop_in_reasoning else ()

    def prompt_as(self, kind: type[PromptT]) -> PromptT:
        """The prompt as this kind. TypeError: the prompt is of another kind, for an engine of another level."""
        if not isinstance(self.prompt, kind):
            raise TypeError(f"The engine takes a {kind.__name__}, and was given a {type(self.prompt).__name__}.")
        return self.prompt


@dataclass(frozen=True, slots=True)
class Alternative:
    """A likely token at a position, and its log probability."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log probability of a generated token, and the likeliest tokens at its position, likeliest first."""

    token_id: int
    logprob: float
    top: tuple[Alternative, ...] = ()


@value
class ReportedUsage:
    """The token counts that an engine reports. None: not reported, or with a number that cannot be right."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    lost_to: str = ""
    """As in EngineFacts."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The figures of an engine about one request, which it reports once or twice. `cached_tokens` is the part of the
    prompt that it had in its cache. None: not reported. `lost_to` is the cause if it should have had more
    (lineage/cache_loss.py), where an engine of several endpoints knows it."""

    cached_tokens: int | None = None
    queue_ns: int | None = None
    prefill_ns: int | None = None
    lost_to: str = ""

    def completed_by(self, later: EngineFacts) -> EngineFacts:
        """These facts, with those of a later report where these have none. The first report counts, because an engine
        that continues the generation of another one finds the output in its prompt."""
        return EngineFacts(
            later.cached_tokens if self.cached_tokens is None else self.cached_tokens,
            later.queue_ns if self.queue_ns is None else self.queue_ns,
            later.prefill_ns if self.prefill_ns is None else self.prefill_ns,
            later.lost_to if self.cached_tokens is None else self.lost_to,
        )


@value
class TokenChunk:
    """One message of a TOKENS engine.

    `finish` is set when the engine itself reports why the generation ended. `logprobs` has one entry for each id, if
    the request asks for them. `facts` are what the engine reports of the request with this message, if anything.
    """

    ids: Sequence[int] = ()
    finish: FinishReason | None = None
    logprobs: Sequence[TokenLogprob] = ()
    facts: EngineFacts | None = None
    placement: str | None = None


def are_token_ids(ids: Sequence[int]) -> bool:
    """Whether these can be ids of tokens. Whether the vocabulary has them is known only where they are read."""
    return not ids or (min(ids) >= 0 and max(ids) <= TOKEN_ID_MAX)


@value
class TextChunk:
    """One message of a TEXT engine.

    `finish` is set when the engine reports why the generation ended, `usage` when it reports token counts. `logprobs`
    are those of the tokens that wrote the text, if the request asks for them.
    """

    text: str = ""
    finish: FinishReason | None = None
    usage: ReportedUsage | None = None
    logprobs: Sequence[TokenLogprob] = ()
    placement: str | None = None


@value
class ChatChunk:
    """One message of a CHAT engine, as segments, which include their log probabilities.

    `finish` and `usage` are set as in a TextChunk.
    """

    segments: Sequence[Segment] = ()
    finish: FinishReason | None = None
    usage: ReportedUsage | None = None
    placement: str | None = None


EngineChunk = TokenChunk | TextChunk | ChatChunk
"""The first chunk of each endpoint that worked on a generation has the `placement` of its prompt there, for the hints
of later prompts (placement.py)."""


def wrong_level(chunk: EngineChunk) -> TypeError:
    """The error for an engine that delivers chunks of another level than its own."""
    return TypeError(f"A {type(chunk).__name__} came from an engine of another level.")
