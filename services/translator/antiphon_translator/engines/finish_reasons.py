"""The finish reasons of model servers: one table for all of them.

Servers of one protocol differ in their words: vLLM adds `repetition`, TGI `eos_token`, and proxies pass on the words of
the API behind them (Anthropic's `end_turn`, Gemini's `MAX_TOKENS`). A reason that is not in the table ends a finished
answer, so the answer is kept as completed, and the reason is logged; for chat streams it is also counted (unread.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from antiphon_core.errors import AntiphonError, EngineFault, EngineOverloaded, EngineTimeout
from antiphon_translator.engines.unread import describe
from antiphon_translator.generation import FinishReason

log = logging.getLogger(__name__)

_KNOWN: Mapping[FinishReason, tuple[str, ...]] = {
    FinishReason.STOP: (
        *("stop", "tool_calls", "function_call"),  # OpenAI
        *("stop_sequence", "eos_token", "eos"),  # Hugging Face's TGI, LMDeploy, MLX
        *("end_turn", "tool_use", "pause_turn"),  # Anthropic, by proxies
        *("complete", "completed", "finish", "finished", "done", "end", "tool_call", "toolcalls"),  # Cohere, proxies
        "repetition",  # vLLM stopped a model that repeats itself
    ),
    FinishReason.LENGTH: (
        *("length", "max_tokens", "max_length", "max_new_tokens", "max_output_tokens"),
        *("model_length", "model_context_window_exceeded", "context_length", "token_limit"),  # Mistral, Anthropic
    ),
    FinishReason.CONTENT_FILTER: (
        *("content_filter", "content_filtered", "guardrail_intervened", "refusal"),  # OpenAI, Bedrock, Anthropic
        *("safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety"),  # Gemini
        "sensitive",  # Zhipu
    ),
}
_FINISHED: Mapping[str, FinishReason] = {word: reason for reason, words in _KNOWN.items() for word in words}
_BROKEN_OFF: Mapping[str, type[AntiphonError]] = {
    **dict.fromkeys(("abort", "aborted", "cancelled", "canceled"), EngineFault),
    **dict.fromkeys(("error", "internal_error", "engine_error", "model_error", "network_error"), EngineFault),
    "insufficient_system_resource": EngineOverloaded,  # DeepSeek
    "timeout": EngineTimeout,  # TensorRT-LLM
}


def finish_reason(given: object) -> FinishReason | None:
    """Translates a server's finish reason, in any case of its letters; None if it is not known. EngineFault,
    EngineOverloaded, EngineTimeout: the reason says that the generation was broken off."""
    word = given.strip().lower() if isinstance(given, str) else ""
    if (error := _BROKEN_OFF.get(word)) is not None:
        raise error(f"The engine broke off the generation: {word}.")
    return _FINISHED.get(word)


def finish_reason_or_stop(given: str) -> FinishReason:
    """Translates a finish reason of an engine that counts no unread parts: an unknown one is logged, and means STOP.
    Raises as `finish_reason`."""
    reason = finish_reason(given)
    if reason is None:
        log.warning("a model server sent an unknown finish reason: %s", describe(given))
    return reason or FinishReason.STOP
