from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.named_call import NamedCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(NamedCall(open=("<c>",), name_end=("<a>", "{"), close=("</c>",), id_open=("<i>",), may_be_json=True))


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ('<c>f<a>{"x": 1}</c>', call("f", '{"x": 1}')),
        ('<c> f {"x": 1}', call("f", '{"x": 1}')),
        ("<c>f<i>abc<a>{}</c>", call("f", "{}", model_id="abc")),
        ("<c>f<a></c>", call("f", "{}")),
        ('<c>[{"name": "f", "arguments": {}}]', call("f", "{}")),
        ("<c>f<a>{}</c> <c>g<a>{}</c>", [*call("f", "{}"), *call("g", "{}")]),
        ("<c>f<a>word</c>Hi", [*call("f", "", is_complete=False), Text("Hi")]),
        ("<c>two words<a>{}</c>", [Text("<c>two words<a>{}</c>")]),
    ],
)
def test_calls(text: str, segments: list[Segment]) -> None:
    dropped_aside = [segment for segment in parsed(FAMILY, text) if type(segment).__name__ != "Dropped"]
    assert dropped_aside == segments


def test_the_pattern_finds_the_name_and_an_id() -> None:
    pattern = r"(?P<id>functions\.(?P<name>\w+):\d+)"
    family = family_of(NamedCall(open=("<c>",), name_end=("<a>",), name_pattern=pattern))
    assert parsed(family, "<c>functions.f:2<a>{}") == call("f", "{}", model_id="functions.f:2")
    assert parsed(family, "<c>f<a>{}") == [Text("<c>f<a>{}")]
