"""Recorded streams of real chat completions servers, read in pieces of any size."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object, loads
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.sse import DONE, EventData
from antiphon_translator.generation import (
    ChatChunk,
    ChatPrompt,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    ReportedUsage,
)
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, ScoredText, Segment, Text
from tests.support import pushed
from tests.support.chunks import only, usage_in
from tests.support.fake_chat import fake_chat
from tests.support.unreadable import spoil
from tests.unit.antiphon_translator.engines.test_chat_stream import items_of, read

FOLDER = Path(__file__).parent
REQUEST = GenerationRequest(request_id="r", max_tokens=40, prompt=ChatPrompt([{"role": "user", "content": "Hi"}]))
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


async def replayed(name: str, piece_bytes: int, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    """The chunks that the engine reads from a recording in pieces of this size."""
    recorded = (FOLDER / f"{name}.sse").read_bytes()
    chunks: list[EngineChunk] = []
    async with fake_chat() as fake:
        fake.script = [recorded[at : at + piece_bytes] for at in range(0, len(recorded), piece_bytes)]
        engine = OpenAIChatEngine(ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint))
        try:
            async with aclosing(pushed.chunks(engine, request)) as batches:
                async for batch in batches:
                    chunks += batch
        finally:
            await engine.close()
    return chunks


def segments_of(chunks: list[EngineChunk]) -> list[Segment]:
    return [segment for chunk in only(ChatChunk, chunks) for segment in chunk.segments]


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
@pytest.mark.parametrize("name", sorted(RECORDED))
async def test_recorded_stream_is_read_with_text_finish_reason_and_usage(name: str, piece_bytes: int) -> None:
    chunks = await replayed(name, piece_bytes)
    texts = [segment.text for segment in segments_of(chunks) if isinstance(segment, Text)]
    assert ("".join(texts), chunks[-1].finish, usage_in(chunks[-1])) == RECORDED[name]


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
@pytest.mark.parametrize("name", sorted(LOGPROBS))
async def test_recorded_log_probabilities_match_their_text(name: str, piece_bytes: int) -> None:
    chunks = await replayed(name, piece_bytes, replace(REQUEST, top_logprobs=1))
    texts = [segment for segment in segments_of(chunks) if isinstance(segment, ScoredText)]
    tokens = [token for text in texts for token in text.tokens]
    text, first = LOGPROBS[name]
    assert "".join(each.text for each in texts) == b"".join(token.written for token in tokens).decode() == text
    assert [token.written.decode() for token in tokens][: len(first)] == first
    assert all(-3 < token.logprob < 0 and len(token.top) == 1 for token in tokens)


@pytest.mark.parametrize("piece_bytes", [1, 97, 1_000_000])
async def test_recorded_call_is_read_with_its_arguments(piece_bytes: int) -> None:
    chunks = await replayed(CALL, piece_bytes)
    begin, *arguments, end = segments_of(chunks)
    assert isinstance(begin, CallBegin)
    assert begin.name == "get_weather"
    assert begin.model_id
    assert "".join(piece.text for piece in arguments if isinstance(piece, Arguments)) == '{"city": "Rome"}'
    assert end == CallEnd(is_complete=True)
    assert (chunks[-1].finish, usage_in(chunks[-1])) == (FinishReason.STOP, ReportedUsage(199, 21, cached_tokens=198))


async def test_recorded_error_is_an_engine_fault() -> None:
    with pytest.raises(EngineFault, match="reported an error"):
        await replayed(ERROR, 97)


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
