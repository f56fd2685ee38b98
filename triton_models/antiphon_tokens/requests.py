"""Reads the tensors of a request into a `Generation` and an `Answer`: what is generated, and what of it is sent."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from antiphon_tokens.generation import (
    NEVER_EXPIRES,
    Generation,
    Guide,
    RequestError,
    Retention,
    RetentionRange,
    Sampling,
)
from antiphon_tokens.tensors import array, finite, scalar, text, values

TOP_LOG_PROBS_MAX = 20
PRIORITY_MAX = 100
SALT_CHARS_MAX = 256
"""More than any name of a tenant or conversation has."""
_RANGES = "retention_token_range_"


@dataclass(frozen=True)
class Answer:
    """The wishes of a request for its responses."""

    is_streamed: bool
    echoes_prompt: bool
    input_count: bool
    output_count: bool
    perf_metrics: bool


def is_stop(request: Any) -> bool:
    """Whether the request ends another one."""
    return bool(scalar(request, "stop", False))


def has_guide(request: Any) -> bool:
    """Whether the output of the request must match a guide, which an engine may have to compile."""
    return array(request, "guided_decoding_guide_type") is not None


def read_answer(request: Any) -> Answer:
    wants = partial(scalar, request)
    return Answer(
        is_streamed=bool(wants("streaming", False)),
        echoes_prompt=not wants("exclude_input_in_output", False),
        input_count=bool(wants("return_num_input_tokens", False)),
        output_count=bool(wants("return_num_output_tokens", False)),
        perf_metrics=bool(wants("return_perf_metrics", False)),
    )


def read_generation(request: Any) -> Generation:
    """Reads what to generate. RequestError: an input cannot be served, by its name."""
    for name in ("beam_width", "num_return_sequences"):
        if scalar(request, name, 1) != 1:
            raise RequestError(f"{name} other than 1 is not supported")
    end_id, top = int(scalar(request, "end_id", -1)), _top_log_probs(request)
    return Generation(
        prompt=_prompt(request),
        tokens_max=int(scalar(request, "request_output_len", 0)),
        end_id=None if end_id < 0 else end_id,
        stop_words=_words(request, "stop_words_list"),
        sampling=_sampling(request),
        log_probs=bool(scalar(request, "return_log_probs", False)) or top > 0,
        top_log_probs=top,
        guide=_guide(request),
        lora=scalar(request, "lora_task_id", None),
        cache_salt=_name(request, "cache_salt"),
        conversation_id=_name(request, "conversation_id"),
        priority=_priority(request),
        retention=_retention(request),
    )


def _prompt(request: Any) -> list[int]:
    rows = array(request, "input_ids")
    if rows is None:
        raise RequestError("input_ids is missing")
    if rows.ndim != 2 or rows.shape[0] != 1:
        raise RequestError(f"input_ids must be one prompt of shape [1, length], got shape {list(rows.shape)}")
    length = scalar(request, "input_lengths", rows.shape[1])
    if not 0 <= length <= rows.shape[1]:
        raise RequestError(f"input_lengths is {length}, but input_ids holds {rows.shape[1]} ids")
    prompt: list[int] = rows[0, :length].tolist()
    return prompt


def _words(request: Any, name: str) -> tuple[tuple[int, ...], ...]:
    """Reads a word list of shape [1, 2, n]: row 0 has all ids, row 1 the end offset of each word, padded with -1."""
    rows = array(request, name)
    if rows is None:
        return ()
    if rows.ndim != 3 or rows.shape[:2] != (1, 2):
        raise RequestError(f"{name} must have shape [1, 2, n], got {list(rows.shape)}")
    ids, offsets = rows[0].tolist()
    ends = [end for end in offsets if end != -1]
    if ends != sorted(ends) or any(not 0 < end <= len(ids) for end in ends):
        raise RequestError(f"{name}: offsets {ends} do not divide {len(ids)} ids")
    starts = [0, *ends[:-1]]
    return tuple(tuple(ids[start:end]) for start, end in zip(starts, ends, strict=True) if end > start)


def _sampling(request: Any) -> Sampling:
    number = partial(finite, request)
    temperature, repetition_penalty = number("temperature", 1.0), number("repetition_penalty", 1.0)
    if temperature < 0 or repetition_penalty <= 0:
        raise RequestError("temperature must not be negative and repetition_penalty must be positive")
    return Sampling(
        temperature=temperature,
        top_k=scalar(request, "runtime_top_k", 0),
        top_p=number("runtime_top_p", 0.0),
        min_p=number("min_p", 0.0),
        seed=scalar(request, "seed", None),
        repetition_penalty=repetition_penalty,
        presence_penalty=number("presence_penalty", 0.0),
        frequency_penalty=number("frequency_penalty", 0.0),
        min_tokens=scalar(request, "min_tokens", 0),
        bias=tuple((token, bias) for token, bias in enumerate(values(request, "embedding_bias")) if bias),
        bad_words=_words(request, "bad_words_list"),
    )


def _top_log_probs(request: Any) -> int:
    wanted = int(scalar(request, "top_log_probs", 0))
    if not 0 <= wanted <= TOP_LOG_PROBS_MAX:
        raise RequestError(f"top_log_probs must be 0 to {TOP_LOG_PROBS_MAX}, got {wanted}")
    return wanted


def _priority(request: Any) -> int | None:
    priority = scalar(request, "priority", None)
    if priority is not None and not 0 <= priority <= PRIORITY_MAX:
        raise RequestError(f"priority must be 0 to {PRIORITY_MAX}, got {priority}")
    return None if priority is None else int(priority)


def _guide(request: Any) -> Guide | None:
    kind = text(request, "guided_decoding_guide_type")
    return None if kind is None else Guide(kind, text(request, "guided_decoding_guide") or "")


def _name(request: Any, name: str) -> str | None:
    found = text(request, name)
    if found is not None and len(found) > SALT_CHARS_MAX:
        raise RequestError(f"{name} has {len(found)} characters; at most {SALT_CHARS_MAX} are accepted")
    return found


def _retention(request: Any) -> Retention | None:
    """The ranges, each a row of inputs of one length. Without ranges the others have no effect, as in TensorRT-LLM."""
    starts, ends, priorities, durations = (
        values(request, f"{_RANGES}{column}") for column in ("starts", "ends", "priorities", "durations_ms")
    )
    if not starts:
        return None
    if not len(starts) == len(ends) == len(priorities) or len(durations) not in (0, len(starts)):
        raise RequestError(f"{_RANGES}starts, _ends, _priorities and _durations_ms must have one length")
    lasting = durations or [NEVER_EXPIRES] * len(starts)
    decode_duration_ms = scalar(request, "retention_decode_duration_ms", None)
    return Retention(
        ranges=tuple(
            RetentionRange(start, None if end < 0 else end, priority, _expiry(duration_ms))
            for start, end, priority, duration_ms in zip(starts, ends, priorities, lasting, strict=True)
        ),
        decode_priority=scalar(request, "retention_decode_priority", None),
        decode_duration_ms=None if decode_duration_ms is None else _expiry(decode_duration_ms),
    )


def _expiry(duration_ms: int) -> int | None:
    return None if duration_ms == NEVER_EXPIRES else duration_ms
