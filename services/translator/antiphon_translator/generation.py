"""The words that engines and the pipeline share: what to generate, what came, why it ended.

Values only. Engines differ in what they take and give, their `Level`:

    TOKENS   token ids in, token ids out: exact, and what is preferred wherever a server offers it
    TEXT     the rendered prompt in, text out; the text goes through the same parser, with literal markers
    CHAT     messages and tools in, reasoning, text and calls out: the other server renders and parses
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from antiphon_core.jsons import Object
from antiphon_core.values import value
from antiphon_translator.parsing.segments import Segment

UNLIMITED = sys.maxsize
"""The `max_tokens` of a generation whose length its server limits."""


class Level(Enum):
    """The form of an engine's input and output."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


class FinishReason(Enum):
    """Why a generation ended by itself."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen; None leaves it to the engine.

    The names of these members are the names of an engine's `controls`. `temperature` 0 means greedy.
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
    """How a guide is written; the values are TensorRT-LLM's `guided_decoding_guide_type`."""

    JSON = "json"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    EBNF = "ebnf_grammar"


@dataclass(frozen=True, slots=True)
class Guide:
    """The constraint that the output must match from its first token on. `text` is empty for any JSON at all.

    `name`, `description` and `strict` are the client's remarks about a schema, for servers that take them.
    """

    kind: GuideKind
    text: str = ""
    name: str = "output"
    description: str | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation as chat completions take it: messages, functions, and which of them must be called."""

    messages: Sequence[Object]
    tools: Sequence[Object] = ()
    tool_choice: str | Object | None = None
    switches: Mapping[str, object] | None = None
    """Variables for the chat template of the other server: `chat_template_kwargs`."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `request_id` is its own: engines log it, and some stop the generation by it.

    Of `prompt_ids`, `prompt_text` and `chat` an engine reads the one of its level. `stop_ids` each end the
    generation, the model's own end-of-turn id first; so does each text in `stop`, which is not part of the output.
    `top_logprobs` is how many alternatives of each token are wanted; None for no log probabilities at all.
    `cache_key` names what shares a beginning with other requests; with `asks_cached` the server is asked how much
    of the prompt it had. With `ignore_eos` the end of turn is a token like any other, and there are no `stop_ids`.
    """

    request_id: str
    max_tokens: int
    prompt_ids: Sequence[int] = ()
    prompt_text: str = ""
    chat: Chat | None = None
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    sampling: Sampling = Sampling()
    guide: Guide | None = None
    top_logprobs: int | None = None
    images: tuple[bytes, ...] = ()
    lora: str | None = None
    cache_key: str | None = None
    asks_cached: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have been next."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely the token that was chosen was, and the likeliest ones at its place, likeliest first."""

    token_id: int
    logprob: float
    top: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Exact counts: ids sent, and ids received up to and with the one that ended the generation, those among them that
    were read as reasoning, and those sent that the server had in its cache."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int = 0


@value
class EngineChunk:
    """The content of one message of an engine, in order: ids, text or segments, by the engine's level.

    `finish` is set when the engine itself reports why the generation ended, `usage` when the engine reports its token
    counts; the pipeline of a TEXT or CHAT engine cannot count by itself. `logprobs` has one entry for each token that a
    TOKENS or TEXT engine delivers, if they were asked for; a CHAT engine has them in its segments.
    """

    token_ids: Sequence[int] = ()
    finish: FinishReason | None = None
    text: str = ""
    segments: Sequence[Segment] = ()
    usage: Usage | None = None
    logprobs: Sequence[TokenLogprob] = ()
    cached_blocks: int = 0
    """Blocks of the prompt that the server had in its cache, where a TOKENS engine says so."""
