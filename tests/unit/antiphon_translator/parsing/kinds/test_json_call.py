from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.segments import CallBegin, Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(JsonCall(open=("<c>",), close=("</c>",)))
DEEP = "[" * 20_000


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ('{"name": "f", "arguments": {"x": 1.10}}', call("f", '{"x": 1.10}')),
        ('{"arguments": {"name": "g"}, "name": "f"}', call("f", '{"name": "g"}')),
        ('{"id": 7, "name": "f", "parameters": {}, "type": [1]}', call("f", "{}")),
        ('{"name": "f"}', call("f", "{}")),
        ('{"name": "f", "arguments": null}', call("f", "{}")),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', call("f", '{"x": 1}')),
        (r'{"name": "f", "arguments": "{\"x\": \"a\ud83d\"}"}', call("f", '{"x": "a\ufffd"}')),
        ('{"name": "f", "arguments": "\\"{}\\""}', call("f", "{}")),
        ('{"name": "f", "arguments": ""}', call("f", "{}")),
        ('{"name": "f", "arguments": "x"}', call("f", '"x"', is_complete=False)),
        ('{"name": "f", "arguments": oops}', call("f", "oops", is_complete=False)),
        ('{"name": "f", "arguments": [1]}', call("f", "[1]", is_complete=False)),
        ('{"name": "f", "arguments": {bad}}', call("f", "{bad}", is_complete=False)),
        ('[{"name": "f"}, {"name": "g"}]', [*call("f", "{}"), *call("g", "{}")]),
        ('{"name": "f"}\n{"name": "g"}\n', [*call("f", "{}"), *call("g", "{}")]),
    ],
)
def test_json_calls_are_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, f"<c>\n{text}\n</c>") == segments


@pytest.mark.parametrize("text", ['{"name": 7}', '{"other": 1}', '{"name": "two words"}', "{name}", "[1]", '{"name" 1'])
def test_malformed_call_without_a_name_is_text(text: str) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>, so to say") == [Text(f"<c>{text}</c>, so to say")]
    assert parsed(FAMILY, f"<c>{text}</c>") == [Text(text)]


@pytest.mark.parametrize("text", ['{"name": "f"', '{"name": "f", "arguments": 1e', '{"name": "f", 7}'])
def test_malformed_call_with_a_name_is_incomplete(text: str) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>") == call("f", f"<c>{text}", is_complete=False)


def test_call_that_ends_behind_its_name_is_incomplete() -> None:
    assert parsed(FAMILY, '<c>{"name": "f",') == call("f", '<c>{"name": "f",', is_complete=False)


@pytest.mark.parametrize("separator", ["; ", ", ", "\n", ""])
def test_consecutive_json_calls_are_separated(separator: str) -> None:
    text = separator.join(['<c>{"name": "f"}', '{"name": "g"}'])
    assert parsed(FAMILY, f"{text} and {{}}") == [*call("f", "{}"), *call("g", "{}"), Text("and {}")]


def test_missing_brackets_at_the_end_do_not_merge_calls() -> None:
    text = '<c>{"name": "f", "arguments": {"x": 1}</c><c>[{"name": "g", "arguments": {}}</c>'
    assert parsed(FAMILY, text) == [*call("f", '{"x": 1}'), *call("g", "{}")]
    text = '<c>{"name": "f", "arguments": {"x": 1</c><c>{"name": "g"}</c>'
    assert parsed(FAMILY, text) == [*call("f", '{"x": 1', is_complete=False), *call("g", "{}")]


def test_deeply_nested_arguments_do_not_break_the_parser() -> None:
    first = parsed(FAMILY, '<c>{"name": "f", "arguments": {"x": ' + DEEP)[0]
    assert first == CallBegin("f")
    deep = DEEP + "]" * len(DEEP)
    assert parsed(FAMILY, f'<c>{{"arguments": {deep}, "name": "f"}}') == call("f", deep, is_complete=False)


def test_call_with_its_name_as_key_is_parsed() -> None:
    family = family_of(JsonCall(open=("<c>",), close=("</c>",), name_is_key=True))
    assert parsed(family, '<c>[{"f": {"x": 1}}, {"g": {}}]</c>') == [*call("f", '{"x": 1}'), *call("g", "{}")]
    assert parsed(family, '<c>[{"f": "{}"}]</c>') == call("f", "{}")
    assert parsed(family, '<c>{"f": [1]}</c>') == call("f", "[1]}", is_complete=False)
    assert parsed(family, '<c>{"g": "{}"}</c> so') == [Text('<c>{"g": "{}"}</c> so')]


def test_name_and_argument_keys_of_the_table_are_used() -> None:
    family = family_of(JsonCall(open=("<c>",), name_keys=("tool",), argument_keys=("input",)))
    assert parsed(family, '<c>{"tool": "f", "name": "g", "input": {"x": 1}}') == call("f", '{"x": 1}')


def test_call_without_a_name_that_is_too_long_to_be_read_again_is_text() -> None:
    long = f'{{"arguments": {{"x": "{"a" * GIVE_BACK_CHARS_MAX}"}}}}'
    assert parsed(FAMILY, f"<c>{long}</c>") == [Text(long)]


def test_call_without_its_heading_is_text() -> None:
    family = family_of(JsonCall(open=("<m>",), heading=("<json>",)))
    assert parsed(family, '<m>f<json>{"name": "f"}') == call("f", "{}")
    assert parsed(family, '<m>{"name": "f"}') == [Text('<m>{"name": "f"}')]
