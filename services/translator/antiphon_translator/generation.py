"""The words that engines and the pipeline share: what to generate, what came, why it ended.

Values only. Everything here is in token ids; text exists on the other side of the pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


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
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `stop_ids` each end it, the model's own end-of-turn id first; `request_id` is for logs."""

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    stop_ids: tuple[int, ...] = ()
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class EngineChunk:
    """Token ids that arrived in one message, in order. `finish` is set when the engine itself says why it ended."""

    token_ids: Sequence[int]
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Exact counts: ids sent, and ids received up to and with the one that ended the generation, those among them that
    were read as reasoning."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0
