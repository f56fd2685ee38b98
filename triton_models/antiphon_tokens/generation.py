"""One generation: what a request asks for, and the rules that hold on every engine. Values and pure functions only.

Meanings and defaults are those of TensorRT-LLM's token-level model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

NEVER_EXPIRES = -1
"""The duration of a retention range that does not end."""


class RequestError(Exception):
    """The request cannot be served; the message says why."""


@dataclass(frozen=True)
class Sampling:
    """The sampling parameters. Without top_k and top_p the next token is chosen greedily, whatever the temperature."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_tokens: int = 0
    bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.temperature <= 0 or self.top_k == 1 or (self.top_k <= 0 and self.top_p <= 0)


@dataclass(frozen=True)
class Guide:
    """A rule that the output must match. `kind`: json, json_schema, regex or ebnf_grammar, as in TensorRT-LLM."""

    kind: str
    text: str


@dataclass(frozen=True)
class RetentionRange:
    """How long the blocks of prompt positions `start` to `end` (None: the end of the prompt) stay in the KV cache."""

    start: int
    end: int | None
    priority: int
    duration_ms: int | None = None


@dataclass(frozen=True)
class Retention:
    """The wishes of a request for its blocks in the KV cache."""

    ranges: tuple[RetentionRange, ...]
    decode_priority: int | None = None
    decode_duration_ms: int | None = None


@dataclass(frozen=True)
class Generation:
    """One request. `log_probs`: with the log probability of each id, and `top_log_probs` likeliest ones beside it."""

    prompt: Sequence[int]
    tokens_max: int
    end_id: int | None = None
    stop_words: tuple[tuple[int, ...], ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    log_probs: bool = False
    top_log_probs: int = 0
    guide: Guide | None = None
    lora: int | None = None
    cache_salt: str | None = None
    conversation_id: str | None = None
    priority: int | None = None
    retention: Retention | None = None

    @property
    def stop_ids(self) -> list[int]:
        """The ids that end the generation alone: the end id, and the stop words of one id."""
        ends = [] if self.end_id is None else [self.end_id]
        return [*ends, *(word[0] for word in self.stop_words if len(word) == 1)]


@dataclass(frozen=True)
class Token:
    """One generated id. `likeliest` has the likeliest ids at its place with their log probabilities."""

    id: int
    log_prob: float = 0.0
    likeliest: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Facts:
    """Figures of the engine about a request. None: the engine does not say."""

    cached_tokens: int | None = None
    queue_ns: int | None = None
    prefill_ns: int | None = None


class FinishReason(str, Enum):
    """Why a generation ended: an end id or stop word, the limit of tokens, or its client."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Limits:
    """The most that an engine takes: tokens of prompt and output together, and ids. None: it does not say, and checks
    them itself."""

    context_length: int | None = None
    vocabulary: int | None = None


def fit(generation: Generation, limits: Limits) -> Generation:
    """The generation with its number of tokens cut to the rest of the context, as in TensorRT-LLM.

    Raises:
        RequestError: the generation can never run.
    """
    if not generation.prompt:
        raise RequestError("input_ids is empty")
    if generation.tokens_max <= 0:
        raise RequestError(f"request_output_len must be positive, got {generation.tokens_max}")
    if limits.vocabulary is not None:
        _require_ids(generation, limits.vocabulary)
    if limits.context_length is None:
        return generation
    length, prompt_max = len(generation.prompt), limits.context_length - 1
    if length > prompt_max:
        raise RequestError(f"Prompt length ({length}) exceeds maximum input length ({prompt_max})")
    return replace(generation, tokens_max=min(generation.tokens_max, limits.context_length - length))


def _require_ids(generation: Generation, vocabulary: int) -> None:
    words = (*generation.stop_words, *generation.sampling.bad_words)
    bias = (token for token, _ in generation.sampling.bias)
    ids = (*generation.prompt, *(token for word in words for token in word), *bias, generation.end_id or 0)
    outside = next((token for token in ids if not 0 <= token < vocabulary), None)
    if outside is not None:
        raise RequestError(f"token id {outside} is outside the vocabulary (0 to {vocabulary - 1})")


class Output:
    """The ids of one generation that count: all before the end id, at most `tokens_max`, and none behind a stop word.

    Engines may generate more before they notice an end, and differ in whether they report the ids of a stop.
    """

    def __init__(self, generation: Generation) -> None:
        self.finish: FinishReason | None = None
        self.ids: list[int] = []
        self._generation = generation

    def take(self, tokens: Sequence[Token]) -> list[Token]:
        """Those of the new tokens that are part of the output. Sets `finish` at the end."""
        taken: list[Token] = []
        for token in tokens:
            if self.finish is not None:
                break
            if token.id == self._generation.end_id:
                self.finish = FinishReason.STOP
                break
            self.ids.append(token.id)
            taken.append(token)
            self.finish = self._finish()
        return taken

    def _finish(self) -> FinishReason | None:
        if any(ends_with(self.ids, word) for word in self._generation.stop_words):
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.ids) >= self._generation.tokens_max else None


def ends_with(ids: Sequence[int], word: tuple[int, ...]) -> bool:
    return not word or tuple(ids[-len(word) :]) == word
