from __future__ import annotations

import pytest

from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.segments import Arguments, Reasoning, Segment, Text, Unread
from antiphon_translator.parsing.token_syntax import PROMPT_TAIL_IDS, TokenSyntax
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.parsing import call
from tests.support.tool_calls.vocabularies import vocabulary

MARKERS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>")
DSML_CALL = '<\uff5cDSML\uff5cinvoke name="f"></\uff5cDSML\uff5cinvoke>'
CALL = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'


def tokenizer() -> ModelTokenizer:
    return vocabulary("", MARKERS).tokenizer


def spelt(text: str) -> list[int]:
    """The ids of a text whose markers are spelt character by character, without control tokens."""
    return [each for character in text for each in tokenizer().encode(character)]


def parsed(ids: list[int], *, prompt: str = "", cut_off: bool = False) -> list[Segment]:
    syntax = TokenSyntax(families.load("hermes"), tokenizer())
    parser = TokenParser(syntax, prompt_ids=tokenizer().encode(prompt), schemas={"f": {}})
    segments = [segment for token_id in ids for segment in parser.feed([token_id])]
    return joined([*segments, *parser.finish(cut_off=cut_off)])


def test_only_control_tokens_are_markers_and_their_spelling_is_text() -> None:
    quoted = '{"x": "</tool_call>"}'
    ids = tokenizer().encode("<tool_call>") + spelt('{"name": "f", "arguments": ' + quoted + "}")
    assert parsed(ids + tokenizer().encode("</tool_call>")) == call("f", quoted)
    assert parsed(spelt(CALL % "{}")) == [Text(CALL % "{}")]


def test_control_tokens_within_texts_are_shown_as_spelt() -> None:
    ids = tokenizer().encode("<think>so <tool_call></think>") + tokenizer().encode(CALL % '{"x": "<think>"}')
    assert parsed(ids) == [Reasoning("so <tool_call>"), *call("f", '{"x": "<think>"}')]


@pytest.mark.parametrize(
    ("family", "token", "text", "model_id"),
    [
        ("kimi_k2", "<name>", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}", "functions.f:0"),
        ("kimi_k2", "<id>", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}", "functions.f:0"),
        ("kimi_k2", "functions", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}", "functions.f:0"),
        ("deepseek_v4", "<key>", DSML_CALL, None),
        ("deepseek_v4", "<string>", DSML_CALL, None),
        ("hermes", "name", CALL % "{}", None),
    ],
)
def test_added_token_that_only_patterns_and_words_of_the_table_spell_is_text(
    family: str, token: str, text: str, model_id: str | None
) -> None:
    tags = (marker for marker in families.load(family).markers() if marker.startswith("<"))
    known = vocabulary("", (*tags, token)).tokenizer
    parser = TokenParser(TokenSyntax(families.load(family), known), schemas={"f": {}})
    found = [*parser.feed(known.encode(text)), *parser.finish(cut_off=False)]
    assert joined(found) == call("f", "{}", model_id=model_id)


def test_added_token_that_spells_a_placeholder_of_the_table_is_text() -> None:
    known = vocabulary("", (*families.load("minimax_m3").markers(), "{key}", "key")).tokenizer
    parser = TokenParser(TokenSyntax(families.load("minimax_m3"), known), schemas={"f": {}})
    tag = "]<]minimax[>["
    text = f'{tag}<tool_call>{tag}<invoke name="f">{tag}<x>{{key}}{tag}</x>{tag}</invoke>{tag}</tool_call>'
    assert joined([*parser.feed(known.encode(text)), *parser.finish(cut_off=False)]) == call("f", '{"x": "{key}"}')


def test_stray_closing_tokens_are_left_out() -> None:
    assert parsed(tokenizer().encode("Hi</tool_call> there<|im_end|>")) == [Text("Hi there")]


def test_malformed_call_of_tokens_is_text() -> None:
    text = "Look: <tool_call>nothing</tool_call> Hi"
    assert parsed(tokenizer().encode(text)) == [Text(text)]
    found = parsed(tokenizer().encode("Look:\n<tool_call>nothing</tool_call>"))
    assert found == [Text("Look:\nnothing"), Unread("text", 8)]


def test_reasoning_opened_by_a_token_of_the_prompt_is_continued() -> None:
    assert parsed(spelt("a</think>"), prompt="<think>") == [Reasoning("a</think>")]
    assert parsed(tokenizer().encode("a</think>b"), prompt="x" * 500 + "<think>\n") == [Reasoning("a"), Text("b")]


def test_internal_token_characters_never_reach_the_output() -> None:
    every = tokenizer().encode("".join(MARKERS) * 2 + CALL % '{"x": ["<think>"]}' + "<think>" + CALL % "{}")
    for segment in parsed(every):
        if isinstance(segment, Text | Reasoning | Arguments):
            segment.text.encode("utf-8")


@pytest.mark.parametrize("size", [1, 2, 99])
def test_ids_behind_the_opener_of_reasoning_are_counted_up_to_its_closer(size: int) -> None:
    parser = TokenParser(TokenSyntax(families.load("hermes"), tokenizer()))
    ids = tokenizer().encode("ab<think>cd</think>e")
    for at in range(0, len(ids), size):
        parser.feed(ids[at : at + size])
    assert parser.reasoning_tokens == len(tokenizer().encode("cd</think>"))
    parser.write("<think>fg")
    assert (parser.is_in_reasoning, parser.reasoning_tokens) == (True, 3)


def test_cut_off_character_is_left_out() -> None:
    assert parsed(spelt("a☃")[:-1], cut_off=True) == [Text("a")]


def test_continued_message_of_any_length_keeps_its_reasoning_state() -> None:
    prompt = tokenizer().encode("<think>" + "a" * PROMPT_TAIL_IDS)
    syntax = TokenSyntax(families.load("hermes"), tokenizer())
    assert not TokenParser(syntax, prompt_ids=prompt).is_in_reasoning
    assert TokenParser(syntax, prompt_ids=prompt, continues_last=True).is_in_reasoning
