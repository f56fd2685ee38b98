"""The words that engines and the pipeline share: what to generate, what came, why it ended.

Values only. Engines differ in what they take and give, their `Level`; each level has its own prompts and chunks:

    TOKENS   TokenPrompt, TokenChunk   token ids in and out: exact, and preferred wherever a server offers it
    TEXT     TextPrompt, TextChunk     the rendered prompt in, text out, which the same parser reads
    CHAT     ChatPrompt, ChatChunk     messages and tools in; reasoning, text and calls out: the other server parses
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
class TokenPrompt:
    """The prompt of a TOKENS engine."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """The prompt of a TEXT engine, and its images in the order in which the text mentions them.

    `tokens` is how many ids the text has: the usage of a turn whose server counts nothing.
    """

    text: str
    tokens: int = 0
    images: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """The prompt of a CHAT engine: messages, functions, and which of the functions must be called."""

    messages: Sequence[Object]
    tools: Sequence[Object] = ()
    tool_choice: str | Object | None = None
    switches: Mapping[str, object] | None = None
    """Variables for the chat template of the other server: `chat_template_kwargs`."""


Prompt = TokenPrompt | TextPrompt | ChatPrompt
PromptT = TypeVar("PromptT", TokenPrompt, TextPrompt, ChatPrompt)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `request_id` is its own: engines log it, and some stop the generation by it.

    `stop_ids` each end the generation, the model's own end-of-turn id first; so does each text in `stop`, which is not
    part of the output.
    `top_logprobs` is how many alternatives of each token are wanted; None for no log probabilities at all.
    `cache_key` names what shares a beginning with other requests; with `asks_cached` the server is asked how much
    of the prompt it had. With `ignore_eos` the end of turn is a token like any other, and there are no `stop_ids`.
    """

    request_id: str
    prompt: Prompt
    max_tokens: int
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    sampling: Sampling = Sampling()
    guide: Guide | None = None
    top_logprobs: int | None = None
    lora: str | None = None
    cache_key: str | None = None
    asks_cached: bool = False

    def prompt_as(self, kind: type[PromptT]) -> PromptT:
        """The prompt, for an engine that takes this kind. TypeError: the request is for an engine of another level."""
        if not isinstance(self.prompt, kind):
            raise TypeError(f"The engine takes a {kind.__name__}, and was given a {type(self.prompt).__name__}.")
        return self.prompt


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
class TokenChunk:
    """One message of a TOKENS engine.

    `finish` is set when the engine itself reports why the generation ended. `logprobs` has one entry for each id, if
    they were asked for. `cached_blocks` are the blocks of the prompt that the server had in its cache, where it tells.
    """

    ids: Sequence[int] = ()
    finish: FinishReason | None = None
    logprobs: Sequence[TokenLogprob] = ()
    cached_blocks: int = 0


@value
class TextChunk:
    """One message of a TEXT engine.

    `finish` is set when the engine reports why the generation ended, `usage` when the engine reports its token counts:
    the pipeline cannot count by itself. `logprobs` are those of the tokens that wrote the text, if they were asked for.
    """

    text: str = ""
    finish: FinishReason | None = None
    usage: Usage | None = None
    logprobs: Sequence[TokenLogprob] = ()


@value
class ChatChunk:
    """One message of a CHAT engine, as segments, which have their log probabilities in them.

    `finish` and `usage` are set as in a TextChunk.
    """

    segments: Sequence[Segment] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None


EngineChunk = TokenChunk | TextChunk | ChatChunk


def wrong_level(chunk: EngineChunk) -> TypeError:
    """An engine delivered a chunk of another level than its own: a mistake in the engine."""
    return TypeError(f"A {type(chunk).__name__} came from an engine of another level.")
