from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from tokenizers import Encoding

from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import (
    ChatChunk,
    ChatPrompt,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Level,
    ReportedUsage,
    TextChunk,
    TextPrompt,
    TokenChunk,
)
from antiphon_translator.output.model_output import ModelOutput
from antiphon_translator.output.outputs import ChatOutput, TextOutput, output_of
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from antiphon_translator.prompt.tools import Tool
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.prompts import prompt_at
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, reasoning_model
from tests.support.served_models import prompt_of
from tests.support.small_vocabulary import ids_of

PROMPT = (1, 2, 3)


def output(
    level: Level, *, max_tokens: int = 1000, stop: tuple[str, ...] = (), stop_in_reasoning: bool = False
) -> ModelOutput:
    prompt = prompt_at(level, PROMPT, "")
    request = GenerationRequest(
        "resp_1", prompt, max_tokens, stop_ids=(END_ID,), stop=stop, stop_in_reasoning=stop_in_reasoning
    )
    weather = Tool("get_weather", "get_weather")
    return output_of(reasoning_model(), prompt_of(PROMPT, weather), request)


def tokens(text: str) -> int:
    return len(TOKENIZER.encode(text))


def chunks(level: Level, *said: str) -> list[EngineChunk]:
    if level is Level.TOKENS:
        return [TokenChunk(ids_of(TOKENIZER, one)) for one in said]
    return [TextChunk(one) for one in said]


def said_at(
    level: Level, text: str = "", finish: FinishReason | None = None, usage: ReportedUsage | None = None
) -> EngineChunk:
    """A chunk with a text or the end, perhaps with usage."""
    if level is Level.TEXT:
        return TextChunk(text, finish, usage)
    return ChatChunk([Text(text)] if text else [], finish, usage)


def joined(segments: Sequence[Segment]) -> tuple[str, str]:
    """Reasoning and text."""
    reasoning = "".join(segment.text for segment in segments if isinstance(segment, Reasoning))
    return reasoning, "".join(segment.text for segment in segments if isinstance(segment, Text))


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_token_ids_and_text_yield_equal_segments(level: Level) -> None:
    made = output(level)
    segments = [
        each for chunk in chunks(level, "<think>", "Hm.", "</think>", "Ja. ", *CALL) for each in made.take(chunk)
    ]
    segments += made.end(cut_off=False)
    assert joined(segments) == ("Hm.", "Ja.")
    assert CallBegin("get_weather") in segments
    assert CallEnd(True) in segments


def test_token_ids_behind_the_end_id_are_not_counted() -> None:
    made = output(Level.TOKENS)
    made.take(TokenChunk([*ids_of(TOKENIZER, "<think>", "ab", "</think>", "cd"), END_ID, 5, 6]))
    assert made.finish is FinishReason.STOP
    assert made.usage() == Usage(3, 1 + 2 + 1 + 2 + 1, 2 + 1)
    assert (made.uncounted_bytes, made.must_count_prompt) == (0, False)


def test_output_of_ids_is_cut_at_max_tokens() -> None:
    made = output(Level.TOKENS, max_tokens=2)
    segments = made.take(TokenChunk(ids_of(TOKENIZER, "abc")))
    assert (made.finish, joined(segments)) == (FinishReason.LENGTH, ("", "ab"))


@pytest.mark.parametrize("level", [Level.TEXT, Level.CHAT])
def test_usage_of_the_engine_is_passed_on(level: Level) -> None:
    made = output(level)
    made.take(said_at(level, "abc"))
    made.take(said_at(level, finish=FinishReason.LENGTH, usage=ReportedUsage(30, 20, cached_tokens=10)))
    assert made.finish is FinishReason.LENGTH
    assert made.usage() == Usage(30, 20, 0, 10)


class Untouched(ModelTokenizer):
    """A tokenizer that fails the test when it encodes."""

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        raise AssertionError(f"encoded {texts}")


@pytest.mark.parametrize(("said", "reasoning"), [(ReportedUsage(30, 20), 5), (ReportedUsage(30, 20, 7), 7)])
def test_text_that_the_engine_counted_is_not_encoded(said: ReportedUsage, reasoning: int) -> None:
    """Uncounted reasoning gets the share of the tokens that it has of the characters."""
    untouched = Untouched(TOKENIZER.library)
    prompt = GenerationRequest("resp_1", ChatPrompt([]), 1000), GenerationRequest("resp_1", TextPrompt(""), 1000)
    chat = ChatOutput(prompt[0], untouched, lambda: len(untouched.encode("prompt")))
    text = TextOutput(OutputParser(reasoning_model().syntax.literal), prompt[1], untouched)
    chat.take(ChatChunk([Reasoning("abcde")]))
    chat.take(ChatChunk([Text("f" * 15)], finish=FinishReason.STOP, usage=said))
    for part in ("<think>", "abcde", "</think>"):
        text.take(TextChunk(part))
    text.take(TextChunk("f" * 15, finish=FinishReason.STOP, usage=said))
    assert (chat.uncounted_bytes, chat.must_count_prompt) == (0, False)
    assert chat.usage() == Usage(30, 20, reasoning)
    assert text.usage().output_tokens == said.output_tokens


def test_text_without_usage_is_counted_by_the_tokenizer() -> None:
    made = output(Level.TEXT)
    for chunk in chunks(Level.TEXT, "<think>", "ab", "</think>", "cd"):
        made.take(chunk)
    assert made.uncounted_bytes == len("<think>ab</think>cd")
    assert made.usage() == Usage(3, tokens("<think>ab</think>cd"), tokens("ab</think>"))


def test_pieces_of_a_text_do_not_stay_in_memory() -> None:
    made = output(Level.CHAT)
    tracemalloc.start()
    try:
        for number in range(10_000, 11_000):
            made.take(ChatChunk([Text(f"{number}")]))
        assert tracemalloc.get_traced_memory()[0] < 20 * 1_000
    finally:
        tracemalloc.stop()


def test_segments_of_a_chat_engine_are_passed_on() -> None:
    made = output(Level.CHAT)
    said: list[Segment] = [Reasoning("Hm."), Text("Ja."), CallBegin("f"), Arguments("{}"), CallEnd(True)]
    assert made.take(ChatChunk(said)) == said
    assert made.end(cut_off=False) == []
    assert made.usage() == Usage(3, tokens("Hm.") + tokens("Ja.") + tokens("f") + tokens("{}"), tokens("Hm."))


def test_call_that_a_chat_engine_left_open_is_ended_as_incomplete() -> None:
    made = output(Level.CHAT)
    made.take(ChatChunk([CallBegin("f"), Arguments("{"), CallEnd(False), CallBegin("f")]))
    made.take(ChatChunk([Arguments('{"a')]))
    assert made.end(cut_off=True) == [CallEnd(False)]


@pytest.mark.parametrize("level", [Level.TEXT, Level.CHAT])
def test_generation_that_ends_with_length_counts_max_tokens(level: Level) -> None:
    made = output(level, max_tokens=9)  # some tokens were never shown, such as half a character or a marker
    made.take(said_at(level, "abc", FinishReason.LENGTH))
    assert made.usage() == Usage(3, 9)


@pytest.mark.parametrize("pieces", [["one STOP two"], ["one S", "TOP two"], list("one STOP two")])
def test_stop_text_in_token_ids_ends_the_output_at_its_last_id(pieces: list[str]) -> None:
    made = output(Level.TOKENS, stop=("STOP", "never"))
    segments = [each for piece in pieces for each in made.take(TokenChunk(ids_of(TOKENIZER, piece)))]
    segments += made.end(cut_off=False)
    assert (made.finish, joined(segments)) == (FinishReason.STOP, ("", "one "))
    assert made.usage().output_tokens == len("one STOP")


def test_stop_text_at_the_token_limit_ends_the_output_as_stopped() -> None:
    ids = TOKENIZER.encode("ab STOP")
    made = output(Level.TOKENS, stop=("STOP",), max_tokens=len(ids))
    made.take(TokenChunk(ids, finish=FinishReason.LENGTH))
    assert made.finish is FinishReason.STOP


def test_unfinished_stop_text_is_shown() -> None:
    made = output(Level.TOKENS, stop=("STOP",))
    segments = [*made.take(TokenChunk(ids_of(TOKENIZER, "one STO"))), *made.end(cut_off=False)]
    assert joined(segments) == ("", "one STO")


def test_control_token_as_a_stop_text_ends_the_output() -> None:
    made = output(Level.TOKENS, stop=("</think>",), stop_in_reasoning=True)
    segments = made.take(TokenChunk(ids_of(TOKENIZER, "<think>", "Hm.", "</think>", "Ja.")))
    assert (made.finish, joined(segments)) == (FinishReason.STOP, ("Hm.", ""))


THOUGHT = ("<think>", "a STOP b\n\nc", "</think>", "\n\n")


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
@pytest.mark.parametrize(
    ("stop", "said", "answer"),
    [
        ("STOP", ("one STOP two",), "one "),
        ("\n\n", ("one\n\ntwo",), "one"),
        ("\n", ("one\ntwo",), "one"),
        ("one", ("one\ntwo",), ""),
        ("\n\nto", ("one\n\ntoto",), "one"),
        ("three", ("one", *CALL, "two"), "onetwo"),
    ],
)
def test_stop_text_ends_the_answer_and_not_the_reasoning(
    level: Level, stop: str, said: tuple[str, ...], answer: str
) -> None:
    for thought in (THOUGHT, ("<think>", "</think>", "\n\n"), ("<think>", "\n\n", "</think>", "\n\n")):
        made = output(level, stop=(stop,))
        segments = [each for chunk in chunks(level, *thought, *said) for each in made.take(chunk)]
        is_stopped = stop != "three"
        assert made.finish is (FinishReason.STOP if is_stopped else None)
        segments += made.end(cut_off=False)
        assert joined(segments) == ("a STOP b\n\nc" if thought == THOUGHT else "", answer)


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_nothing_behind_a_stop_text_is_shown(level: Level) -> None:
    made = output(level, stop=("STOP",))
    segments = [each for chunk in chunks(level, "one STOP ", *CALL, "two") for each in made.take(chunk)]
    assert joined([*segments, *made.end(cut_off=False)]) == ("", "one ")
    assert not any(isinstance(each, CallBegin) for each in segments)


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_stop_text_in_a_call_does_not_end_it(level: Level) -> None:
    made = output(level, stop=("Paris", "name", '"'))
    segments = [each for chunk in chunks(level, *CALL) for each in made.take(chunk)]
    assert segments[-1] == CallEnd(is_complete=True)
    assert made.finish is None
