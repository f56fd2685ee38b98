from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import (
    Alternative,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Level,
    TextChunk,
    TokenChunk,
    TokenLogprob,
)
from antiphon_translator.logprobs.requested import LEFT_OUT
from antiphon_translator.output.model_output import ModelOutput
from antiphon_translator.output.outputs import output_of
from antiphon_translator.output.scored_output import ScoredOutput
from antiphon_translator.parsing.segments import CallBegin, CallEnd, Candidate, Reasoning, ScoredText, Segment
from antiphon_translator.prompt.tools import Tool
from tests.support.prompts import prompt_at
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, reasoning_model
from tests.support.served_models import prompt_of
from tests.support.small_vocabulary import ids_of

WEATHER = Tool("get_weather", "get_weather")
SAID = ("<think>", "Hm.", "</think>", "\n\nJa ☃.\n", *CALL, "Ende. ")


def output(level: Level, top: int | None = 0, *, max_tokens: int = 1000) -> ModelOutput:
    prompt = prompt_at(level, (1,), "")
    request = GenerationRequest("resp_1", prompt, max_tokens, stop_ids=(END_ID,), top_logprobs=top)
    return output_of(reasoning_model(), prompt_of((1,), WEATHER), request)


def scored(ids: Sequence[int]) -> list[TokenLogprob]:
    """Log probabilities in which each id has a value made of its number, and three alternatives."""
    return [
        TokenLogprob(each, -each / 8, tuple(Alternative(each + more, -each / 8 - more) for more in range(3)))
        for each in ids
    ]


def chunk(level: Level, *said: str) -> EngineChunk:
    ids = ids_of(TOKENIZER, *said)
    if level is Level.TOKENS:
        return TokenChunk(ids, logprobs=scored(ids))
    return TextChunk("".join(said), logprobs=scored(ids))


def written(segments: Sequence[Segment]) -> list[tuple[str, bytes]]:
    """Texts with the bytes of their tokens."""
    return [
        (segment.text, b"".join(token.written for token in segment.tokens))
        for segment in segments
        if isinstance(segment, ScoredText)
    ]


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_only_text_has_log_probabilities(level: Level) -> None:
    made = output(level)
    segments = [*made.take(chunk(level, *SAID)), *made.end(cut_off=False)]
    assert written(segments) == [("Ja ☃.", "Ja ☃.".encode()), ("Ende.", b"Ende."), (" ", b" ")]
    assert "".join(each.text for each in segments if isinstance(each, Reasoning)) == "Hm."
    assert CallBegin("get_weather") in segments
    assert CallEnd(True) in segments
    assert made.usage().output_tokens == len(ids_of(TOKENIZER, *SAID))


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_alternatives_are_cut_to_the_requested_number(level: Level) -> None:
    made = output(level, 2)
    (text,) = made.take(chunk(level, "a"))
    assert isinstance(text, ScoredText)
    (number,) = ids_of(TOKENIZER, "a")
    (token,) = text.tokens
    assert (token.written, token.logprob) == (b"a", -number / 8)
    assert token.top == (Candidate(b"a", -number / 8), Candidate(TOKENIZER.bytes_of(number + 1), -number / 8 - 1))


def test_text_that_comes_after_its_tokens_gets_them() -> None:
    made = output(Level.TEXT)
    segments = [*made.take(TextChunk(logprobs=scored(ids_of(TOKENIZER, "Ja."))))]
    for text in ("J", "a."):
        segments += made.take(TextChunk(text))
    assert written([*segments, *made.end(cut_off=False)]) == [("J", b"J"), ("a.", b"a.")]


def test_end_id_within_a_chunk_ends_the_output() -> None:
    made = output(Level.TOKENS)
    ids = [*ids_of(TOKENIZER, "ab"), END_ID, *ids_of(TOKENIZER, "c")]
    assert written(made.take(TokenChunk(ids, logprobs=scored(ids)))) == [("ab", b"ab")]
    assert (made.finish, made.usage()) == (FinishReason.STOP, Usage(1, 3))
    assert made.end(cut_off=False) == []


def test_finish_reason_of_the_engine_is_used() -> None:
    made = output(Level.TOKENS)
    ids = ids_of(TOKENIZER, "ab")
    assert written(made.take(TokenChunk(ids, FinishReason.LENGTH, logprobs=scored(ids)))) == [("ab", b"ab")]
    assert made.finish is FinishReason.LENGTH


def test_text_begun_by_the_prompt_has_no_log_probabilities() -> None:
    made = output(Level.TOKENS)
    assert written(made.write("Also ")) == [("Also", b"")]
    assert written(made.take(chunk(Level.TOKENS, "ja"))) == [(" ja", b"ja")]


def test_tokens_of_a_cut_off_character_are_left_out() -> None:
    made = output(Level.TOKENS)
    ids = ids_of(TOKENIZER, "a☃")[:-1]
    segments = made.take(TokenChunk(ids, logprobs=scored(ids)))
    assert written([*segments, *made.end(cut_off=True)]) == [("a", b"a")]


@pytest.mark.parametrize(
    ("level", "given"), [(Level.TOKENS, TokenChunk(ids_of(TOKENIZER, "ab"))), (Level.TEXT, TextChunk("ab"))]
)
def test_missing_log_probabilities_are_logged_once_and_left_out(
    level: Level, given: EngineChunk, caplog: pytest.LogCaptureFixture
) -> None:
    made = output(level)
    made.take(type(given)())
    segments = [*made.take(given), *made.take(chunk(level, "c")), *made.end(cut_off=False)]
    texts = written(segments)
    assert ("".join(text for text, _ in texts), {tokens for _, tokens in texts}) == ("abc", {b""})
    assert [record.getMessage() for record in caplog.records] == [LEFT_OUT]


def test_log_probabilities_that_stop_midway_are_a_fault() -> None:
    ids = ids_of(TOKENIZER, "ab")
    for broken in (TokenChunk(ids), TokenChunk(ids, logprobs=scored(ids[:1]))):
        made = output(Level.TOKENS)
        made.take(chunk(Level.TOKENS, "c"))
        with pytest.raises(EngineFault, match="left out some"):
            made.take(broken)


def test_scored_output_is_made_only_for_requested_log_probabilities() -> None:
    assert not isinstance(output(Level.TOKENS, None), ScoredOutput)
    assert not isinstance(output(Level.TEXT, None), ScoredOutput)
    assert not isinstance(output(Level.CHAT), ScoredOutput)  # segments of a chat engine have their own
