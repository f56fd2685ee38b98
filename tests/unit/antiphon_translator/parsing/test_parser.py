from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Reasoning, Segment, Text
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.parsing import call, notes, parsed, parsed_with_notes

QWEN = "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"
CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'


@pytest.mark.parametrize("tools", [None, {"f": {}}])
def test_empty_reasoning_without_its_opener_is_left_out_at_the_beginning(tools: dict[str, Object] | None) -> None:
    family = Family(name="one", reasoning=(("<t>thought\n", "</t>"),), heading=("thought\n",))
    for text, shown in (("thought\n</t>Hi", "Hi"), ("thought\nHi", "thought\nHi"), ("A thought\n</t>", "A thought\n")):
        parser = OutputParser(family, schemas=tools)
        segments = [segment for character in text for segment in parser.feed(character)]
        assert joined([*segments, *parser.finish()]) == [Text(shown)]


def test_reasoning_text_and_calls_are_parsed_in_order() -> None:
    text = f"<think>\nhm\n</think>\n\nLook:\n{CALL}\n{CALL}\nDone."
    calls = [*call("f", '{"x": 1}')] * 2
    assert parsed("hermes", text) == [Reasoning("hm"), Text("Look:"), *calls, Text("Done.")]


def test_reasoning_begun_by_the_prompt_is_parsed() -> None:
    assert parsed("hermes", "hm</think>Hello", tail="<think>\n") == [Reasoning("hm"), Text("Hello")]
    assert parsed("hermes", "hm", tail="<think>\n\n</think>\n\n") == [Text("hm")]
    assert parsed("hermes", "hm", tail="<think>") == [Reasoning("hm")]


def test_without_tools_calls_are_text() -> None:
    parser = OutputParser(families.load("hermes"))
    assert [*parser.feed(f"<think>a</think>{CALL}"), *parser.finish()] == [Reasoning("a"), Text(CALL)]


@pytest.mark.parametrize("family", ["hermes", "qwen_coder"])
def test_call_in_reasoning_ends_it(family: str) -> None:
    assert parsed(family, f"<think>so\n{CALL}") == [Reasoning("so"), *call("f", '{"x": 1}')]


def test_call_in_the_midst_of_a_sentence_of_reasoning_is_a_draft_by_family() -> None:
    assert parsed("hermes", f"<think>Maybe {CALL}? No.</think>Hi") == [Reasoning(f"Maybe {CALL}? No."), Text("Hi")]
    assert parsed("qwen_coder", f"<think>Maybe {CALL}") == [Reasoning("Maybe"), *call("f", '{"x": 1}')]


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", "Write <tool_call> around it, not <tool_call>\n{name} </tool_call>."),
        ("hermes", "Use the <tool_call> tag.\n\nSecond paragraph."),
        ("hermes", 'The format:\n<tool_call>\n{"name": NAME}\n</tool_call>\nwhere NAME is a tool.'),
        ("qwen_coder", "Write `<function=NAME>`, then <tool_call> and </tool_call>"),
        ("mistral", "The [TOOL_CALLS] token, or [TOOL_CALLS] [1] twice."),
        ("kimi_k2", "It opens with <|tool_calls_section_begin|> and goes on."),
        ("minimax_m2", 'Between `<think>` and `</think>` it thinks; "<invoke name=" calls.'),
    ],
)
def test_mention_or_malformed_call_is_shown_as_written(family: str, text: str) -> None:
    assert parsed(family, text) == [Text(text)]


def test_markers_behind_a_mentioned_opener_are_parsed() -> None:
    text = f"<think>not <function=two words> here, nor a <tool_call></think>Hi{QWEN}"
    thought = Reasoning("not <function=two words> here, nor a <tool_call>")
    assert parsed("qwen_coder", text) == [thought, Text("Hi"), *call("f", '{"x": 1}')]


def test_unknown_tool_within_reasoning_is_no_call() -> None:
    text = "<think>so <function=g>\n<parameter=x>\n1\n</parameter>\n</function></think>Hi"
    assert parsed("qwen_coder", text, schemas={"f": {"properties": {}}})[-1] == Text("Hi")


def test_text_behind_an_opener_is_held_back_only_up_to_a_limit() -> None:
    text = "<tool_call> " + "word " * GIVE_BACK_CHARS_MAX
    parser = OutputParser(families.load("kimi_k2"), schemas={"f": {}})
    told = parser.feed("<|tool_calls_section_begin|>" + "word " * GIVE_BACK_CHARS_MAX)
    assert told
    assert parsed("qwen_coder", text + QWEN) == [Text(text.rstrip()), *call("f", '{"x": 1}')]


@pytest.mark.parametrize("closer", ["</invoke>", "</minimax:tool_call>", "</invoke>\n</minimax:tool_call>"])
def test_stray_closers_are_not_shown(closer: str) -> None:
    one = '<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>'
    assert parsed("minimax_m2", f"{one}\n{closer}\n{closer}Hi") == [*call("f", '{"x": 1}'), Text("Hi")]
    assert parsed("minimax_m2", "Hi</minimax:tool_call>\n") == [Text("Hi\n")]


def test_call_cut_off_before_its_name_is_text() -> None:
    cut = '{"name": "f'
    assert parsed("hermes", "Look:\n<tool_call>\n" + cut) == [Text("Look:\n" + cut)]
    assert parsed("phi4_mini", "I use functools") == [Text("I use functools")]


def test_call_cut_off_in_its_arguments_is_incomplete() -> None:
    cut = '<tool_call>\n{"name": "f", "arguments": {"x": '
    assert parsed("hermes", cut) == call("f", '{"x": ', is_complete=False)
    open_end = '<tool_call>\n{"name": "f", "arguments": {"x": 1}\n</tool_call>Hi'
    assert parsed("hermes", open_end) == [*call("f", '{"x": 1}'), Text("Hi")]
    bad = '<tool_call>\n{"name": "f", "arguments": {x}}\n</tool_call>Hi'
    assert parsed("hermes", bad) == [*call("f", "{x}", is_complete=False), Text("Hi")]


def test_noise_in_a_section_of_calls_is_left_out_and_noted() -> None:
    begin, end = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    one = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    text = f"{begin} noise {one}\n{end}Hi"
    assert parsed("kimi_k2", text) == [*call("f", "{}", model_id="functions.f:0"), Text("Hi")]
    assert notes("kimi_k2", text) == ["noise"]


@pytest.mark.parametrize(
    ("family", "text", "segments"),
    [
        ("glm", "<tool_call>f<arg_key>x</tool_call>", call("f", "<tool_call>f<arg_key>x", is_complete=False)),
        ("glm", "<tool_call>say what?</tool_call>", [Text("say what?")]),
        (
            "hermes",
            '<tool_call>{"name": "g", 1}</tool_call>',
            call("g", '<tool_call>{"name": "g", 1}', is_complete=False),
        ),
        ("hermes", f"{CALL}\n<tool_call>no call</tool_call>", [*call("f", '{"x": 1}'), Text("no call")]),
        (
            "minimax_m2",
            '<minimax:tool_call><invoke name="f">so</invoke><invoke name="f"></invoke></minimax:tool_call>',
            [*call("f", '<minimax:tool_call><invoke name="f">so', is_complete=False), *call("f", "{}")],
        ),
        (
            "minimax_m2",
            '<minimax:tool_call><invoke name="f"></invoke><invoke name="f">so</invoke></minimax:tool_call>',
            [*call("f", "{}"), *call("f", '<invoke name="f">so', is_complete=False)],
        ),
        ("kimi_k2", "<|tool_calls_section_begin|>words<|tool_calls_section_end|>", [Text("words")]),
    ],
)
def test_call_that_cannot_be_read_is_incomplete_or_text(family: str, text: str, segments: list[Segment]) -> None:
    assert parsed(family, text) == segments
    assert notes(family, text) == ["text" if isinstance(segments[-1], Text) else "call"]


@pytest.mark.parametrize("text", ["<tool_call>", "<tool_call></tool_call>", "<tool_call>\n\n</tool_call>\n"])
def test_markers_alone_are_left_out_and_noted(text: str) -> None:
    assert not [each for each in parsed("hermes", text) if isinstance(each, Text) and each.text.strip()]
    assert notes("hermes", text) == ["markers"]


def test_call_that_was_cut_off_at_the_length_limit_is_not_noted() -> None:
    cut = '<tool_call>\n{"name": "f", "arguments": {"x": '
    segments = parsed_with_notes("hermes", cut, cut_off=True)
    assert segments == call("f", '{"x": ', is_complete=False)


def test_in_reasoning_follows_the_reasoning_markers() -> None:
    parser = OutputParser(families.load("hermes"), schemas={})
    assert not parser.is_in_reasoning
    parser.feed("<think>")
    assert parser.is_in_reasoning
    parser.feed("a</think>")
    assert not parser.is_in_reasoning
    parser = OutputParser(families.load("gpt_oss"), schemas={})
    parser.feed("<|channel|>analysis<|message|>a")
    assert parser.is_in_reasoning


def test_output_begun_by_the_prompt_is_parsed_and_not_shown() -> None:
    tail = "<|end_header_id|>\n\n>>>"
    assert parsed("functionary32", 'f\n{"x": 1}>>>all\nHi', tail=tail) == [*call("f", '{"x": 1}'), Text("Hi")]
    assert parsed("functionary32", "all\nHi", tail=tail) == [Text("Hi")]
    assert parsed("functionary32", "Hi", tail=tail) == [Text("Hi")]


def test_closer_of_a_shown_opener_is_shown() -> None:
    text = "Between <tool_call> and\n</tool_call> stands an object."
    assert parsed("hermes", text) == [Text(text)]
    assert parsed("hermes", "Hi\n</tool_call>\nthere") == [Text("Hi\n\nthere")]


def test_stray_brackets_behind_a_call_are_not_shown() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}}\n</tool_call>\nHi'
    assert parsed("hermes", text) == [*call("f", '{"x": 1}'), Text("Hi")]
    assert parsed("hermes", f"{CALL[:-12]}}} is one") == [*call("f", '{"x": 1}'), Text("} is one")]
