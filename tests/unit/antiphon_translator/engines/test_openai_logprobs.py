"""The chunks have the forms of vLLM, SGLang and llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import Object
from antiphon_translator.engines.chat_stream import ChunkReader
from antiphon_translator.engines.openai_logprobs import ScoredChunkReader, reader
from antiphon_translator.generation import FinishReason
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.parsing.segments import (
    Arguments,
    CallBegin,
    CallEnd,
    Candidate,
    Reasoning,
    ScoredText,
    ScoredToken,
    Segment,
)
from tests.support.unread import NotedParts
from tests.unit.antiphon_translator.engines.test_chat_stream import call, end
from tests.unit.antiphon_translator.engines.test_chat_stream import delta as plain
from tests.unit.antiphon_translator.engines.test_openai_wire import REQUEST


def entry(token: str | bytes, logprob: float | None = -0.5, **members: Any) -> Object:
    data = token.encode() if isinstance(token, str) else token
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)} | members


def delta(*tokens: str | bytes | Object, **members: Any) -> Object:
    """A chunk with these tokens."""
    chunk = plain(**members)
    entries = [entry(token) if isinstance(token, str | bytes) else token for token in tokens]
    chunk["choices"][0]["logprobs"] = {"content": entries}
    return chunk


def read(*chunks: Object, top: int = 0) -> list[Segment]:
    """All segments that are read from the chunks."""
    made = ScoredChunkReader(NotedParts(), top=top)
    segments = [segment for chunk in chunks if (one := made.read(chunk)) for segment in one.segments]
    last = made.finish()
    assert last.finish in (FinishReason.STOP, None)
    return [*segments, *last.segments]


def written(segments: list[Segment]) -> list[tuple[str, list[bytes]]]:
    """Texts and their tokens."""
    return [
        (segment.text, [token.written for token in segment.tokens])
        for segment in segments
        if isinstance(segment, ScoredText)
    ]


def test_reader_depends_on_the_wish_for_log_probabilities() -> None:
    assert type(reader(REQUEST, NotedParts(), b"{}")) is ChunkReader
    assert type(reader(replace(REQUEST, top_logprobs=0), NotedParts(), b"{}")) is ScoredChunkReader


def test_text_deltas_have_their_scored_tokens() -> None:
    first = plain(role="assistant", content="")
    first["choices"][0]["logprobs"] = None
    segments = read(first, delta("The", content="The"), delta(" cap", "ital", content=" capital"), end("stop"))
    assert segments == [
        ScoredText("The", (ScoredToken(b"The", -0.5),)),
        ScoredText(" capital", (ScoredToken(b" cap", -0.5), ScoredToken(b"ital", -0.5))),
    ]


def test_alternatives_are_cut_to_the_requested_number() -> None:
    token = entry("a", -0.5, top_logprobs=[entry("a", -0.5), entry("b", None), entry("c", -3)])
    (text,) = read(delta(token, content="a"), end("stop"), top=2)
    assert text == ScoredText("a", (ScoredToken(b"a", -0.5, (Candidate(b"a", -0.5), Candidate(b"b", -inf))),))
    (text,) = read(delta(token, content="a"), end("stop"))
    assert text == ScoredText("a", (ScoredToken(b"a", -0.5),))


def test_token_without_bytes_has_the_bytes_of_its_text() -> None:
    tokens = [entry("ü", bytes=None), {"token": "b", "logprob": -1}]
    assert written(read(delta(*tokens, content="üb"), end("stop"))) == [("üb", ["ü".encode(), b"b"])]


def test_tokens_of_a_split_character_are_kept_until_it_is_complete() -> None:
    chunks = (delta(b"\xe2", content=""), delta(b"\x98", content=""), delta(b"\x83", content="☃"), end("stop"))
    assert written(read(*chunks)) == [("☃", [b"\xe2", b"\x98", b"\x83"])]


def test_tokens_with_replacement_characters_go_with_the_completed_text() -> None:
    chunks = (delta("�", content=""), delta("�", "!", content="é!"), delta("b", content="b"), end("stop"))
    assert written(read(*chunks)) == [("é!", ["�".encode(), "�".encode(), b"!"]), ("b", [b"b"])]


def test_tokens_of_reasoning_calls_and_markers_are_left_out() -> None:
    segments = read(
        delta("<think>"),
        delta("Hm", reasoning_content="Hm"),
        delta(".", "</think>", "\n\n", reasoning=".\n"),
        delta("So", content="So"),
        delta("<tool_call>", '{"name"'),
        {"choices": delta(' "f"')["choices"] and call(0, "{}", name="f", id="1")["choices"]},
        delta("}", "</tool_call>", " Done", content=" Done"),
        end("tool_calls"),
    )
    assert written(segments) == [("So", [b"So"]), ("Done", [b" Done"])]
    assert [each for each in segments if not isinstance(each, ScoredText)] == [
        *(Reasoning("Hm"), Reasoning(".")),
        *(CallBegin("f", "1"), Arguments("{}"), CallEnd(True)),
    ]


def test_text_equal_to_a_call_does_not_get_the_tokens_of_the_call() -> None:
    call_of_f = call(0, '{"a": 1}', name="f", id="1")
    tokens = delta("<tool_call>", '{"a', '": 1}')["choices"][0]["logprobs"]
    call_of_f["choices"][0]["logprobs"] = tokens
    segments = read(call_of_f, delta("\n", 'I said {"a', "<", content='{"a'), end("stop"))
    assert written(segments) == [('{"a', [b'I said {"a'])]


def test_text_that_was_held_back_gets_the_remaining_tokens() -> None:
    chunks = (delta("a", content="a"), plain(role="assistant"), delta("b", content="<b"), end("stop"))
    assert written(read(*chunks)) == [("a", [b"a"]), ("<b", [b"b"])]


@pytest.mark.parametrize("logprobs", [None, {"content": None}, {"content": []}])
def test_missing_log_probabilities_are_logged_once_and_left_out(
    logprobs: Object | None, caplog: pytest.LogCaptureFixture
) -> None:
    chunk = plain(content="a")
    chunk["choices"][0]["logprobs"] = logprobs
    assert written(read(chunk, delta("b", content="b"), end("stop"))) == [("a", []), ("b", [])]
    assert [record.getMessage() for record in caplog.records] == [LEFT_OUT]


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "a"},
        {"logprob": -1.0},
        entry("a", bytes=[256]),
        entry("a", bytes="x"),
        7,
        entry("a") | {"logprob": "x"},
        entry("a", nan),
        entry("a", top_logprobs=[7]),
    ],
)
def test_log_probabilities_that_cannot_be_read_are_left_out_and_the_answer_stays(wrong: Any) -> None:
    chunk = plain(content="a")
    chunk["choices"][0]["logprobs"] = {"content": [wrong]}
    made = ScoredChunkReader(unread := NotedParts(), top=1)
    first, last = made.read(chunk), made.read(delta("b", content="b"))
    assert first is not None
    assert last is not None
    assert [*first.segments, *last.segments] == [ScoredText("a", ()), ScoredText("b", ())]
    assert unread.parts == ["logprobs"]


def test_text_held_behind_a_call_keeps_its_log_probabilities() -> None:
    chunks = (call(0, '{"a"', id="1", name="f"), delta("hm", content="hm"), call(0, ":1}"), delta(" so", content=" so"))
    assert written(read(*chunks, end("stop"))) == [("hm", [b"hm"]), (" so", [b" so"])]


@given(st.lists(st.tuples(st.sampled_from(["a", " ", "\n", "☃", "ü b", "</think>"]), st.booleans()), max_size=12))
def test_each_token_of_an_answer_appears_once(said: list[tuple[str, bool]]) -> None:
    chunks, held = [], ""
    for text, told in said:  # a server sends some texts late
        held += text
        chunks.append(delta(text, content=held if told else ""))
        held = "" if told else held
    segments = read(*chunks, delta(content=held), end("stop")) if said else []
    assert "".join(text for text, _ in written(segments)) == "".join(text for text, _ in said)
    assert [token for _, tokens in written(segments) for token in tokens] == [text.encode() for text, _ in said]
