from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.named_call import NamedCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(NamedCall(open=("<c>",), name_end=("<a>",), close=("</c>",), id_open=("<i>",)))


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ('<c>f<a>{"x": 1}</c>', call("f", '{"x": 1}')),
        ('<c> f {"x": 1}', call("f", '{"x": 1}')),
        ("<c>f<i>abc<a>{}</c>", call("f", "{}", model_id="abc")),
        ("<c>f<a></c>", call("f", "{}")),
        (r'<c>f<a>"{\"x\": \"a\\n\"}"</c>', call("f", r'{"x": "a\n"}')),
        ("<c>f<a>null</c>", call("f", "{}")),
        ('<c>f<a>"word"</c>Hi', [*call("f", '"word"', is_complete=False), Text("Hi")]),
        ('<c>g<a>"{}"</c> is text', [Text('<c>g<a>"{}"</c> is text')]),
        ("<c>f<a>{}</c> <c>g<a>{}</c>", [*call("f", "{}"), *call("g", "{}")]),
        ("<c>f<a>word</c>Hi", [*call("f", "word", is_complete=False), Text("Hi")]),
        ("<c>two words<a>{}</c>", [Text("two words<a>{}")]),
        ("<c>two words<a>{}</c> are text", [Text("<c>two words<a>{}</c> are text")]),
        ("<c>0<a>{}</c>", [Text("0<a>{}")]),
        ("<c>f<a>", call("f", "", is_complete=False)),
        ('<c>f<a>{"x": 1</c><c>g<a>{}</c>', [*call("f", '{"x": 1', is_complete=False), *call("g", "{}")]),
    ],
)
def test_named_calls_are_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, text) == segments


def test_name_pattern_yields_the_name_and_the_id() -> None:
    pattern = r"(?P<id>functions\.(?P<name>\w+):\d+)"
    family = family_of(NamedCall(open=("<c>",), name_end=("<a>",), name_pattern=pattern))
    assert parsed(family, "<c>functions.f:2<a>{}") == call("f", "{}", model_id="functions.f:2")
    assert parsed(family, "<c>f<a>{}") == [Text("<c>f<a>{}")]


def test_name_behind_a_marker_is_parsed() -> None:
    family = family_of(NamedCall(open=("<c>",), name_open=("<n>",), name_end=("<a>",)))
    assert parsed(family, "<c>function<n>f\n<a>\n{}") == call("f", "{}")
    assert parsed(family, "<c>f<a>{}") == [Text("<c>f<a>{}")]
