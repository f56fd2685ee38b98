from __future__ import annotations

from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Dropped, Reasoning, Text
from tests.support.tool_calls.parsing import call, parsed

CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'


def test_reasoning_text_and_calls_in_order() -> None:
    text = f"<think>\nhm\n</think>\n\nLook:\n{CALL}\n{CALL}\nDone."
    calls = [*call("f", '{"x": 1}')] * 2
    assert parsed("hermes", text) == [Reasoning("hm"), Text("Look:"), *calls, Text("Done.")]


def test_the_prompt_may_have_begun_the_reasoning() -> None:
    assert parsed("hermes", "hm</think>Hello", tail="<think>\n") == [Reasoning("hm"), Text("Hello")]
    assert parsed("hermes", "hm", tail="<think>\n\n</think>\n\n") == [Text("hm")]
    assert parsed("hermes", "hm", tail="<think>") == [Reasoning("hm")]


def test_without_tools_calls_are_text() -> None:
    parser = OutputParser(families.load("hermes"))
    assert [*parser.feed(f"<think>a</think>{CALL}"), *parser.finish()] == [Reasoning("a"), Text(CALL)]


def test_a_call_within_reasoning_is_a_draft_or_its_end() -> None:
    assert parsed("hermes", f"<think>{CALL}</think>Hi") == [Reasoning(CALL), Text("Hi")]
    draft = "<think>so<tool_call>\n<function=f>\n</function>\n</tool_call>"
    assert parsed("qwen_coder", draft) == [Reasoning("so"), *call("f", "{}")]


def test_what_is_no_call_is_shown_as_it_was_written() -> None:
    text = "Write <tool_call> around it, not <tool_call>\n{name} </tool_call>."
    assert parsed("hermes", text) == [Text(text)]
    text = "<think>not <function=two words> here</think>"
    assert parsed("qwen_coder", text) == [Reasoning("not <function=two words> here")]


def test_a_call_that_was_cut_off_before_anything_is_known_is_not_shown() -> None:
    cut = '<tool_call>\n{"name": "f'
    assert parsed("hermes", "Look:\n" + cut) == [Text("Look:"), Dropped(cut), Text("\n")]
    assert parsed("phi4_mini", "I use functools") == [Text("I use functools")]


def test_a_call_that_was_cut_off_later_is_incomplete() -> None:
    cut = '<tool_call>\n{"name": "f", "arguments": {"x": '
    assert parsed("hermes", cut) == call("f", '{"x": ', is_complete=False)
    bad = '<tool_call>\n{"name": "f", "arguments": {x}}\n</tool_call>Hi'
    assert parsed("hermes", bad) == [*call("f", "{x}", is_complete=False), Text("Hi")]


def test_noise_in_a_section_of_calls_is_dropped_and_told() -> None:
    begin, end = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    one = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    found = parsed("kimi_k2", f"{begin} noise {one}\n{end}Hi")
    assert found == [Dropped("noise"), *call("f", "{}", model_id="functions.f:0"), Text("Hi")]


def test_in_reasoning_says_what_comes_next() -> None:
    parser = OutputParser(families.load("hermes"), schemas={})
    assert not parser.in_reasoning
    parser.feed("<think>")
    assert parser.in_reasoning
    parser.feed("a</think>")
    assert not parser.in_reasoning
    parser = OutputParser(families.load("gpt_oss"), schemas={})
    parser.feed("<|channel|>analysis<|message|>a")
    assert parser.in_reasoning
