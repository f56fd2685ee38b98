"""Recorded streams of real chat completions servers, read in pieces of any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object, loads
from antiphon_translator.engines.sse import DONE, EventData
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    ReportedUsage,
)
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, ScoredText, Text
from tests.support.chat_streams import REQUEST, items_of, read, replayed, segments_of
from tests.support.chunks import usage_in
from tests.support.unreadable import spoil

FOLDER = Path(__file__).parent
RECORDED = {
    "llamacpp-stop": ("The capital of France is Paris.", FinishReason.STOP, ReportedUsage(16, 8, cached_tokens=0)),
    "llamacpp-length": (
        "L'amour est toujeur, c'est la femme, c'est la femme.\n",
        FinishReason.LENGTH,
        ReportedUsage(21, 24, cached_tokens=3),
    ),
    "llamacpp-schema": (
        '{\n  "name": "Bob",\n  "age": 42\n}',
        FinishReason.STOP,
        ReportedUsage(17, 23, cached_tokens=3),
    ),
}


LOGPROBS = {
    "llamacpp-logprobs": ("L'Étoile, la Marseillaise,", ["L", "'", "É", "to", "ile", ",", " la", " Mar", "se", "illa"]),
    "llamacpp-logprobs-emoji": ("🌍🌍🌍🌍", ["🌍"] * 4),
}
CALL, ERROR = "llamacpp-call", "llamacpp-error"


def test_every_recorded_stream_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.sse")} == {*RECORDED, *LOGPROBS, CALL, ERROR}


async def chunks_of(name: str, piece_bytes: int, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    """The chunks that the engine reads from a recording in pieces of this size."""
    return await replayed((FOLDER / f"{name}.sse").read_bytes(), piece_bytes, request)


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
@pytest.mark.parametrize("name", sorted(RECORDED))
async def test_recorded_stream_is_read_with_text_finish_reason_and_usage(name: str, piece_bytes: int) -> None:
    chunks = await chunks_of(name, piece_bytes)
    texts = [segment.text for segment in segments_of(chunks) if isinstance(segment, Text)]
    assert ("".join(texts), chunks[-1].finish, usage_in(chunks[-1])) == RECORDED[name]


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
@pytest.mark.parametrize("name", sorted(LOGPROBS))
async def test_recorded_log_probabilities_match_their_text(name: str, piece_bytes: int) -> None:
    chunks = await chunks_of(name, piece_bytes, replace(REQUEST, top_logprobs=1))
    texts = [segment for segment in segments_of(chunks) if isinstance(segment, ScoredText)]
    tokens = [token for text in texts for token in text.tokens]
    text, first = LOGPROBS[name]
    assert "".join(each.text for each in texts) == b"".join(token.written for token in tokens).decode() == text
    assert [token.written.decode() for token in tokens][: len(first)] == first
    assert all(-3 < token.logprob < 0 and len(token.top) == 1 for token in tokens)


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
async def test_recorded_call_is_read_with_its_arguments(piece_bytes: int) -> None:
    chunks = await chunks_of(CALL, piece_bytes)
    begin, *arguments, end = segments_of(chunks)
    assert isinstance(begin, CallBegin)
    assert begin.name == "get_weather"
    assert begin.model_id
    assert "".join(piece.text for piece in arguments if isinstance(piece, Arguments)) == '{"city": "Rome"}'
    assert end == CallEnd(is_complete=True)
    assert (chunks[-1].finish, usage_in(chunks[-1])) == (FinishReason.STOP, ReportedUsage(199, 21, cached_tokens=198))


async def test_recorded_error_is_an_engine_fault() -> None:
    with pytest.raises(EngineFault, match="reported an error"):
        await chunks_of(ERROR, 97)


@pytest.mark.parametrize("name", sorted({*RECORDED, CALL}))
@given(st.data())
def test_one_unreadable_member_of_a_recorded_stream_loses_nothing_of_the_answer(name: str, data: st.DataObject) -> None:
    chunks = recorded_chunks(name)
    spoil(chunks, data)
    assert items_of(read(*chunks)[0]) == items_of(read(*recorded_chunks(name))[0])


def recorded_chunks(name: str) -> list[Object]:
    """The chunks of a recording."""
    events = EventData().feed((FOLDER / f"{name}.sse").read_bytes())
    return [loads(data) for data in events if isinstance(data, bytes) and data != DONE]
