from __future__ import annotations

import pytest

from antiphon_translator.parsing.segments import Break, Reasoning, Segment, Text
from tests.support.tool_calls.parsing import call, parsed

ARGUMENTS = '<|constrain|>json<|message|>{"x": 1}'


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<|channel|>final<|message|>Hi", [Break(), Text("Hi")]),
        ("<|channel|>commentary<|message|>First", [Break("commentary"), Text("First")]),
        ("<|channel|>analysis<|message|>hm<|end|>", [Break(), Reasoning("hm")]),
        (f"<|channel|>commentary to=functions.f {ARGUMENTS}<|call|>", call("f", '{"x": 1}')),
        (f" to=functions.f<|channel|>commentary {ARGUMENTS}", call("f", '{"x": 1}')),
        (f"<|channel|>analysis to=functions.f {ARGUMENTS}", call("f", '{"x": 1}')),
        (f"<|channel|>commentary<|channel|>commentary to=f {ARGUMENTS}", call("f", '{"x": 1}')),
        ("<|channel|>commentary to=functions.f<|message|>", call("f", "{}")),
        ("<|channel|>commentary to=functions.f<|message|>{x", call("f", "{x", is_complete=False)),
        ("<|channel|>final to=assistant<|message|>Hi", [Break(), Text("Hi")]),
        ("<|channel|>commentary to=python<|message|>1+1", [Break("commentary"), Reasoning("1+1")]),
        ("<|channel|>commentary to=functions.<|message|>Hi", [Break("commentary"), Reasoning("Hi")]),
        ("<|message|>Hi", [Break(), Text("Hi")]),
        ("Hi, no header", [Text("Hi, no header")]),
        ("<|channel|>final", []),
        ('<|channel|>final {"a": 1}', [Break(), Text('{"a": 1}')]),
        ("<|channel|>??<|end|>", [Break(), Text("??")]),
        ("<|channel|>??<|message|>", [Break(), Text("??")]),
        ("<|channel|>analysis hm<|message|><|end|>", [Break(), Reasoning("hm")]),
        ("<|channel|>final<|message|><|return|>", [Break()]),
        (
            "<|channel|>analysis hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
            [Break(), Reasoning("hm"), Break(), Text("Hi")],
        ),
        (
            "<|channel|>commentary to=functions.f <|constrain|>json",
            call("f", "<|channel|>commentary to=functions.f <|constrain|>json", is_complete=False),
        ),
    ],
)
def test_harmony_message_is_parsed_by_its_header(text: str, segments: list[Segment]) -> None:
    assert parsed("gpt_oss", text, tail="<|start|>assistant") == segments


def test_consecutive_harmony_messages_are_separated() -> None:
    text = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>"
    assert parsed("gpt_oss", text) == [Break(), Reasoning("a"), Break(), Text("b")]


def test_text_between_messages_is_shown() -> None:
    text = "<|channel|>analysis<|message|>a<|end|>stray<|start|>assistant<|channel|>final<|message|>b"
    assert parsed("gpt_oss", text) == [Break(), Reasoning("a"), Text("stray"), Break(), Text("b")]


def test_call_cut_off_before_its_arguments_is_incomplete_and_empty() -> None:
    header = "<|channel|>commentary to=functions.f<|message|>"
    assert parsed("gpt_oss", header, cut_off=True) == call("f", "", is_complete=False)


def test_header_begun_by_the_prompt_is_continued() -> None:
    assert parsed("gpt_oss", "<|message|>a", tail="<|start|>assistant<|channel|>analysis") == [Break(), Reasoning("a")]


@pytest.mark.parametrize(
    ("open_message", "told"),
    [("final<|message|>so far", Text(" and on")), ("analysis<|message|>so far", Reasoning("and on"))],
)
def test_message_begun_by_the_prompt_is_continued(open_message: str, told: Segment) -> None:
    text = " and on<|end|><|start|>assistant<|channel|>final<|message|>b"
    segments = parsed("gpt_oss", text, tail=f"<|start|>assistant<|channel|>{open_message}")
    assert segments == [told, Break(), Text("b")]


@pytest.mark.parametrize("word", [" to", " t", "assist", "assistant to=functions."])
def test_cut_off_role_is_left_out(word: str) -> None:
    assert parsed("gpt_oss", word, cut_off=True) == []
    assert parsed("gpt_oss", "to a tee", cut_off=True) == [Text("to a tee")]
    assert parsed("gpt_oss", " to") == [Text(" to")]
