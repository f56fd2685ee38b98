"""Answers of real vLLM and llama.cpp, as they came over the socket, read at several cuts of the bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import AntiphonError, ContextLengthExceeded, EngineMisconfigured, InvalidRequest
from antiphon_translator.engines import chat_errors
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    ReportedUsage,
)
from antiphon_translator.parsing.segments import ScoredText
from tests.engines.exchange import Answer
from tests.engines.servers import KINDS
from tests.support.chat_streams import REQUEST, items_of, replayed, segments_of
from tests.support.chunks import usage_in

FOLDER = Path(__file__).parent
PIECES = pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
ANSWERS = {
    "llamacpp-cached-first": ([("text", "\nLorem")], LENGTH, ReportedUsage(440, 4, cached_tokens=3)),
    "llamacpp-cached-second": ([("text", "\nLorem")], LENGTH, ReportedUsage(440, 4, cached_tokens=439)),
    "llamacpp-call-no-arguments": ([("call", "get_time", "{\n\n}")], LENGTH, ReportedUsage(353, 32, cached_tokens=58)),
    "llamacpp-call-required": (
        [("call", "get_weather", '{\n\n"city": "New York"\n}')],
        LENGTH,
        ReportedUsage(372, 40, cached_tokens=177),
    ),
    "llamacpp-calls-parallel": (
        [("call", "get_weather", '{\n\n"city": "New York"\n}'), ("call", "get_time", "{\n\n}")],
        LENGTH,
        ReportedUsage(418, 90, cached_tokens=108),
    ),
    "llamacpp-length": ([("text", "\nThe story begins with a")], LENGTH, ReportedUsage(23, 6, cached_tokens=3)),
    "llamacpp-reasoning": (
        [("reasoning", "trying to make a choice"), ("text", "to make a hw.")],
        STOP,
        ReportedUsage(11, 27, cached_tokens=3),
    ),
    "llamacpp-schema": ([("text", '{\n  "age": 1000000000000000\n}')], STOP, ReportedUsage(21, 32, cached_tokens=3)),
    "llamacpp-stop": ([("text", '\nThe answer is: "Paris"')], STOP, ReportedUsage(25, 9, cached_tokens=24)),
    "llamacpp-text": ([("text", '\nThe answer is: "Paris"')], STOP, ReportedUsage(25, 9, cached_tokens=0)),
    "vllm-cached-first": (
        [("text", "The original sentence is")],
        LENGTH,
        ReportedUsage(431, 4, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-cached-second": (
        [("text", "The original sentence is")],
        LENGTH,
        ReportedUsage(431, 4, reasoning_tokens=0, cached_tokens=384),
    ),
    "vllm-call-named": (
        [("call", "get_weather", '{\n    "city": "Rome"\n}')],
        STOP,
        ReportedUsage(127, 45, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-call-no-arguments": (
        [("call", "get_time", "{\n    \n}")],
        STOP,
        ReportedUsage(106, 40, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-call-required": (
        [("call", "get_weather", '{\n    "city": "Rome"\n}')],
        STOP,
        ReportedUsage(178, 46, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-calls-parallel": (
        [("text", "Sure."), ("call", "get_weather", '{"city": "Rome"}'), ("call", "get_time", "{}")],
        STOP,
        ReportedUsage(172, 80, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-length": (
        [("text", 'The story of the "L')],
        LENGTH,
        ReportedUsage(14, 6, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-reasoning": (
        [("reasoning", "<think>\ntrying to make a choice\n</think>\n\nto make a hw.")],
        STOP,
        ReportedUsage(11, 27, reasoning_tokens=26, cached_tokens=0),
    ),
    "vllm-schema": (
        [("text", '{\n  "age"\n  : 2018\n}')],
        STOP,
        ReportedUsage(12, 16, reasoning_tokens=0, cached_tokens=0),
    ),
    "vllm-stop": ([("text", "The")], STOP, ReportedUsage(16, 2, reasoning_tokens=0, cached_tokens=0)),
    "vllm-text": (
        [("text", "The capital of France is Paris.")],
        STOP,
        ReportedUsage(16, 8, reasoning_tokens=0, cached_tokens=0),
    ),
}
TEXT_IN_PLACE_OF_A_CALL = "llamacpp-call-named"
LOGPROBS = {
    "llamacpp-logprobs": "\nYou can use",
    "vllm-logprobs": "Hello there. I",
}
ERRORS: dict[str, tuple[type[AntiphonError], str, str | None]] = {
    "llamacpp-error-context": (ContextLengthExceeded, "context_length_exceeded", "input"),
    "llamacpp-error-grammar-and-tools": (InvalidRequest, "engine_refused", None),
    "llamacpp-error-image": (InvalidRequest, "engine_refused", None),
    "llamacpp-error-schema": (InvalidRequest, "invalid_value", "text.format"),
    "vllm-error-context": (ContextLengthExceeded, "context_length_exceeded", "input"),
    "vllm-error-image": (InvalidRequest, "engine_refused", None),
    "vllm-error-length": (InvalidRequest, "engine_refused", None),
    "vllm-error-model": (EngineMisconfigured, "engine_misconfigured", None),
    "vllm-error-parameter": (InvalidRequest, "engine_refused", None),
    "vllm-error-tool": (InvalidRequest, "engine_refused", None),
}
ERROR_IN_STREAM = "vllm-error-schema"


def recorded(name: str) -> Answer:
    return Answer((FOLDER / f"{name}.http").read_bytes())


async def chunks_of(name: str, piece_bytes: int, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    """The chunks that the engine reads from a recording in pieces of this size."""
    return await replayed(recorded(name).body, piece_bytes, request)


def test_every_case_is_recorded_and_has_an_expectation() -> None:
    asked = {f"{kind.engine.name}-{name}" for kind in KINDS for name in kind.cases}
    expected = {*ANSWERS, TEXT_IN_PLACE_OF_A_CALL, *LOGPROBS, *ERRORS, ERROR_IN_STREAM}
    assert {path.stem for path in FOLDER.glob("*.http")} == asked == expected


@PIECES
@pytest.mark.parametrize("name", sorted(ANSWERS))
async def test_recorded_answer_is_read_with_items_finish_reason_and_usage(name: str, piece_bytes: int) -> None:
    chunks = await chunks_of(name, piece_bytes)
    assert (items_of(segments_of(chunks)), chunks[-1].finish, usage_in(chunks[-1])) == ANSWERS[name]


async def test_text_in_place_of_a_forced_call_stays_text() -> None:
    chunks = await chunks_of(TEXT_IN_PLACE_OF_A_CALL, 97)
    ((kind, _),) = items_of(segments_of(chunks))
    assert (kind, chunks[-1].finish) == ("text", LENGTH)


@PIECES
@pytest.mark.parametrize("name", sorted(LOGPROBS))
async def test_recorded_log_probabilities_match_their_text(name: str, piece_bytes: int) -> None:
    chunks = await chunks_of(name, piece_bytes, replace(REQUEST, top_logprobs=1))
    scored = [segment for segment in segments_of(chunks) if isinstance(segment, ScoredText)]
    tokens = [token for each in scored for token in each.tokens]
    assert "".join(each.text for each in scored) == LOGPROBS[name]
    assert b"".join(token.written for token in tokens).decode() == LOGPROBS[name]
    assert all(token.logprob < 0 and len(token.top) == 1 for token in tokens)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_recorded_error_is_told_to_the_client(name: str) -> None:
    answer = recorded(name)
    told = chat_errors.parse_error(answer.body)
    error = chat_errors.of_answer(told, status=answer.status, server="It", model="m", url="http://127.0.0.1/v1")
    assert (type(error), error.code, error.field) == ERRORS[name]


@PIECES
async def test_error_in_a_recorded_stream_is_told_to_the_client(piece_bytes: int) -> None:
    with pytest.raises(InvalidRequest, match="cannot compile a grammar") as raised:
        await chunks_of(ERROR_IN_STREAM, piece_bytes)
    assert raised.value.field == "text.format"
