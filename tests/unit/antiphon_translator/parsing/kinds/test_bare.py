from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.bare import BareJson, BarePython
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

JSON, PYTHON = family_of(bare=BareJson()), family_of(bare=BarePython())
F = '{"name": "f", "parameters": {"x": 1e20}}'


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        (f" {F}", call("f", '{"x": 1e20}')),
        (f"{F}; {F}", [*call("f", '{"x": 1e20}')] * 2),
        (f"[{F}, {F}]", [*call("f", '{"x": 1e20}')] * 2),
        (f"{F}\nand more", [*call("f", '{"x": 1e20}'), Text("and more")]),
        (f"{F}, not a call", [*call("f", '{"x": 1e20}'), Text(", not a call")]),
    ],
)
def test_bare_json_calls_are_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(JSON, text) == segments


@pytest.mark.parametrize(
    "text", ['{"answer": 42}', '{"name": "Bob", "age": 3}', " {", "[1, 2]", "  Hello {}", '{"a": 1} ' + F, "{bad}"]
)
def test_json_without_a_call_is_shown_as_written(text: str) -> None:
    assert parsed(JSON, text) == [Text(text)]


def test_arguments_are_passed_on_before_the_call_ends() -> None:
    parser = OutputParser(JSON, schemas={})
    assert parser.feed('{"name": "f", "parameters": {"x": "a') == [CallBegin("f"), Arguments('{"x": "a')]
    assert parser.feed("b") == [Arguments("b")]


def test_bare_python_calls_are_parsed() -> None:
    assert parsed(PYTHON, "[f(x=1)] ok") == [*call("f", '{"x": 1}'), Text("ok")]
    assert parsed(PYTHON, "[1, 2]") == [Text("[1, 2]")]
    assert parsed(PYTHON, " word") == [Text(" word")]
