from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(PythonCall(open=("<c>",), close=("</c>",)))
BARE = family_of(bare=PythonCall())
LINES = family_of(PythonCall(open=("<c>",), close=("</c>",), is_list=False))


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("[f(a=1, b='x)]')]", call("f", '{"a": 1, "b": "x)]"}')),
        (
            "[f(), m.g(x=[True, null, {'a': (1,)}])]",
            [*call("f", "{}"), *call("m.g", '{"x": [true, null, {"a": [1]}]}')],
        ),
        ("[f(x='a\n\tb', n=07, m=-0.50, s='07')]", call("f", r'{"x": "a\n\tb", "n": 7, "m": -0.5, "s": "07"}')),
        (r"[f(x='a\ud83d', y=['\ud83d\ude00'])]", call("f", '{"x": "a\ufffd", "y": ["\U0001f600"]}')),
        (r"[f(x='\d ☃')]", call("f", r'{"x": "\\d ☃"}')),
    ],
)
def test_list_of_python_calls_is_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>") == segments


def test_whole_number_is_an_integer_by_the_schema() -> None:
    schemas = {"f": {"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x": {"type": "number"}}}}
    assert parsed(FAMILY, "<c>[f(n=7.0, x=7.0)]</c>", schemas=schemas) == call("f", '{"n": 7, "x": 7.0}')


@pytest.mark.parametrize("text", ["[1]", "f()", "[]", "[g(1)]", "[f]", "[g(x=print())]"])
def test_python_code_without_a_call_of_an_offered_tool_stays_text(text: str) -> None:
    assert parsed(FAMILY, f"<c>{text}</c> so") == [Text(f"<c>{text}</c> so")]


@pytest.mark.parametrize("text", ["[1]", "[g(1)]", f"[g(x='{'a' * GIVE_BACK_CHARS_MAX}', y=print())]"])
def test_python_code_between_markers_without_a_call_of_an_offered_tool_is_shown_without_them(text: str) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>") == [Text(text)]


@pytest.mark.parametrize("arguments", ["1", "x=print()", "x=a", "*a", "**{'x': 1}", "x=[*a]", "x=1, 2", "x={1}"])
def test_arguments_that_are_no_named_literals_make_the_call_incomplete_with_their_text(arguments: str) -> None:
    broken = call("f", arguments, is_complete=False)
    assert parsed(FAMILY, f"<c>[f({arguments}), g(x=1)]</c> so") == [*broken, *call("g", '{"x": 1}'), Text("so")]
    assert parsed(LINES, f"<c>g()\nf({arguments})</c>", schemas={"f": {}, "g": {}}) == [*call("g", "{}"), *broken]
    assert parsed(BARE, f"[f({arguments})] so") == [Text(f"[f({arguments})] so")]


def test_list_of_calls_without_its_end_keeps_the_calls() -> None:
    assert parsed(FAMILY, "<c>[f(x=1), g(y=2</c>") == [*call("f", '{"x": 1}'), *call("g", "y=2", is_complete=False)]
    assert parsed(FAMILY, "<c>[f(x=1)</c>so") == [*call("f", '{"x": 1}'), Text("so")]
    assert parsed(FAMILY, "<c>[f(x='a", cut_off=True) == call("f", "x='a", is_complete=False)
    assert parsed(BARE, "[f(x=1)") == [Text("[f(x=1)")]


def test_bare_list_with_a_tool_that_was_not_offered_stays_text() -> None:
    assert parsed(BARE, "[f(x=1), g(x=2)]") == [Text("[f(x=1), g(x=2)]")]


@pytest.mark.parametrize("family", ["lfm2", "olmo3", "llama4"])
def test_name_with_dashes_is_parsed(family: str) -> None:
    opener, closer = {"lfm2": ("<|tool_call_start|>[", "]<|tool_call_end|>"), "llama4": ("[", "]")}.get(
        family, ("<function_calls>\n", "\n</function_calls>")
    )
    text = f'{opener}get-weather(city="Rome"){closer}'
    assert parsed(family, text, schemas={"get-weather": {}}) == call("get-weather", '{"city": "Rome"}')


def test_python_calls_in_lines_are_parsed() -> None:
    assert parsed(LINES, "<c>\nf(x=1)\ng()\n</c>") == [*call("f", '{"x": 1}'), *call("g", "{}")]
    assert parsed(LINES, "<c>\nimport os\n</c> so") == [Text("<c>\nimport os\n</c> so")]
