"""One generation: its prompt, its sampling, its stop conditions and its callbacks.

This module has only values and pure rules, which the engine and the Triton side share. Meanings and defaults are those
of TensorRT-LLM's token-level model.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


class RequestError(Exception):
    """The request cannot be served; the message says why."""


@dataclass(frozen=True)
class Sampling:
    """The sampling parameters. Without top_k and top_p the next token is chosen greedily, whatever the temperature."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_tokens: int = 0
    bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    grammar: str | None = None

    @property
    def is_greedy(self) -> bool:
        return self.temperature <= 0 or self.top_k == 1 or (self.top_k <= 0 and self.top_p <= 0)


@dataclass(eq=False)
class Sequence:
    """One generation. The three callbacks run on the engine's thread and must be quick.

    on_token(id, log_prob, last) is called for each generated id except the end id. on_end(error) is called once, after
    the last id; `error` is None for a normal end or a cancellation. is_cancelled() is called before each step.
    """

    prompt: list[int]
    tokens_max: int
    end_id: int
    stop_words: tuple[tuple[int, ...], ...]
    sampling: Sampling
    want_log_probs: bool
    on_token: Callable[[int, float, bool], None]
    on_end: Callable[[str | None], None]
    is_cancelled: Callable[[], bool]
    generated: list[int] = field(default_factory=list)
    top_log_probs: int = 0
    likeliest: list[tuple[int, float]] = field(default_factory=list)
    """The `top_log_probs` likeliest ids at the position of the last generated id, with their log probabilities."""

    def is_finished(self) -> bool:
        """Whether the last generated id completed a stop word or reached the token limit."""
        return len(self.generated) >= self.tokens_max or any(map(self._ends_with, self.stop_words))

    def banned_ids(self) -> frozenset[int]:
        """The ids that must not come next: the end id before min_tokens, and the last id of a bad word of which all
        other ids were generated."""
        banned = {word[-1] for word in self.sampling.bad_words if self._ends_with(word[:-1])}
        if len(self.generated) < self.sampling.min_tokens and self.end_id >= 0:
            banned.add(self.end_id)
        return frozenset(banned)

    def _ends_with(self, word: tuple[int, ...]) -> bool:
        return not word or tuple(self.generated[-len(word) :]) == word
