from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.gemma_call import GemmaCall
from antiphon_translator.parsing.segments import CallBegin, CallEnd, Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

SYNTAX = GemmaCall(open=("<c>",), close=("</c>",), quote="''")
FAMILY = family_of(SYNTAX)
BARE = family_of(SYNTAX, bare=SYNTAX)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("call:f{}", call("f", "{}")),
        ("call:f{a:''x \"}'',b c:-1.50,''d:e'':null}", call("f", '{"a": "x \\"}", "b c": -1.50, "d:e": null}')),
        ("call:f{a:[1,{b:true}],c:word}", call("f", '{"a": [1, {"b": true}], "c": "word"}')),
        ("call:f{a:''''}", call("f", '{"a": ""}')),
    ],
)
def test_gemma_calls_are_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>") == segments


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<c>:f{a:1}</c>", call("f", '{"a": 1}')),
        ("<c>call:f(a:1)</c>", call("f", '{"a": 1}')),
        ('<c>call:f({"a": 1})</c>', call("f", '{"a": 1}')),
        ("<c>call:f{{a:1}}</c>", call("f", '{"a": 1}')),
        ("<c>call:f()</c>", call("f", "{}")),
        ("<c>call:f</c>", call("f", "{}")),
        ("<c>call:f(a:1}</c>", call("f", '{"a": 1}', is_complete=False)),
        ("<c>call:f-g{a:1}</c>", call("f-g", '{"a": 1}')),
    ],
)
def test_call_with_another_prefix_or_bracket_is_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, text) == segments


@pytest.mark.parametrize("start", ["<c>call:f{}</c>", "call:f{}</c>", "call:f{}"])
def test_call_of_an_offered_tool_needs_no_opener_behind_another_call(start: str) -> None:
    assert parsed(BARE, f"{start}\ncall:f{{a:1}}</c>Hi") == [*call("f", "{}"), *call("f", '{"a": 1}'), Text("Hi")]
    assert parsed(BARE, f"{start}call:g{{a:1}} is none") == [*call("f", "{}"), Text("call:g{a:1} is none")]


@pytest.mark.parametrize("text", ["call:g{}", "call: me later", "call:f", "I call:f{}", "f{}"])
def test_text_that_looks_like_a_call_without_an_opener_stays_text(text: str) -> None:
    assert parsed(BARE, text) == [Text(text)]


def test_malformed_gemma_call_is_text_or_incomplete_at_the_end() -> None:
    assert parsed(FAMILY, "<c>f{}</c> is none") == [Text("<c>f{}</c> is none")]
    assert parsed(FAMILY, "<c>call:f g{}</c>") == call("f", "<c>call:f g{}", is_complete=False)


def test_a_call_without_end_is_incomplete() -> None:
    assert parsed(FAMILY, "<c>call:f{a:''x") == call("f", '{"a": "x', is_complete=False)


def test_missing_brace_does_not_merge_two_calls() -> None:
    for text in ("call:f{a:''x''", "call:f{a:1"):
        broken = parsed(FAMILY, f"<c>{text}</c><c>call:g{{b:2}}</c>")
        assert [each for each in broken if isinstance(each, CallEnd)] == [CallEnd(False), CallEnd(True)]
        assert broken[-3:] == call("g", '{"b": 2}')


@pytest.mark.parametrize("text", ["[1}", "[}", "{b:1]", "[1,}"])
def test_wrong_bracket_makes_the_call_incomplete(text: str) -> None:
    begin, *others = parsed(FAMILY, f"<c>call:f{{a:{text}</c>")
    assert begin == CallBegin("f")
    assert CallEnd(False) in others


def test_too_deep_nesting_makes_the_call_incomplete() -> None:
    assert CallEnd(False) in parsed(FAMILY, "<c>call:f{" + "a:{" * 2000)
