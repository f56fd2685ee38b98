from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_translator.parsing.kinds.tagged_call import TaggedCall
from antiphon_translator.parsing.segments import CallBegin, CallEnd, Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

SYNTAX = TaggedCall(
    open=("<c ",),
    name_end=(">",),
    empty_end=("/>",),
    key_open=("<k ",),
    key_close=(">",),
    value_close=("</k>",),
    close=("</c>",),
)
SCHEMAS: dict[str, Any] = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}


def read(text: str, **changes: Any) -> list[Segment]:
    return parsed(family_of(replace(SYNTAX, **changes)), text, schemas=SCHEMAS)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<c f></c>", call("f", "{}")),
        ('<c "f"/>', call("f", "{}")),
        ('<c "f"><k s>3</k><k n>3</k></c>', call("f", '{"s": "3", "n": 3}')),
        ("<c f>\n<k s> a\n</k>\n</c>", call("f", '{"s": " a\\n"}')),
        ("<c f><k s>a</k>b</k></c>", call("f", '{"s": "a</k>b"}')),
        ("<c f><k new>[1]</k></c>", call("f", '{"new": [1]}')),
        ("<c f><k s>a", call("f", '{"s": "a', is_complete=False)),
        ("<c two words></c> so", [Text("<c two words></c> so")]),
        ("<c unknown></c> so", [Text("<c unknown></c> so")]),
        ("<c unknown><k s>a</k></c>", call("unknown", '{"s": "a"}')),
        ('<c f>{"s": "a"}</c>', call("f", '{"s": "a"}')),
        ("<c f><k n>1</k><c f><k n>2</k></c>", [*call("f", '{"n": 1}'), *call("f", '{"n": 2}')]),
        ("<c f><k s>a </c> b</k></c>", call("f", '{"s": "a </c> b"}')),
        ("<c f><k s>a</c> <c f></c>", [*call("f", '{"s": "a"}'), *call("f", "{}")]),
        ('<c f><k arguments>{"n": 1}</k></c>', call("f", '{"n": 1}')),
        ('<c f><k arguments>{"x": 1}</k></c>', call("f", '{"arguments": {"x": 1}}')),
        ('<c f><k arguments>{"n": 1}</k><k n>2</k></c>', call("f", '{"arguments": {"n": 1}, "n": 2}')),
    ],
)
def test_tagged_calls_are_parsed(text: str, segments: list[Segment]) -> None:
    assert read(text) == segments


def test_one_newline_around_a_value_is_trimmed_if_it_is_markup() -> None:
    assert read("<c f><k s>\n\na\n\n</k></c>", trims_newlines=True) == call("f", '{"s": "\\na\\n"}')


def test_windows_newlines_around_a_value_are_trimmed_too() -> None:
    assert read("<c f><k s>\r\na\r\nb\r\n</k></c>", trims_newlines=True) == call("f", '{"s": "a\\r\\nb"}')


def test_missing_closer_is_implied_by_the_next_known_parameter() -> None:
    assert read("<c f><k s>a\n<k n>3</k></c>") == call("f", '{"s": "a", "n": 3}')
    assert read("<c f><k s>a\n<k x>3</k></c>") == call("f", '{"s": "a\\n<k x>3"}')


def test_key_without_a_value_makes_its_call_incomplete_and_keeps_the_next() -> None:
    text = "<c f><k s></c><c f><k n><v>1</k></c>"
    broken = [*call("f", "<c f><k s>", is_complete=False), *call("f", '{"n": 1}')]
    assert read(text, value_open=("<v>",)) == broken


def test_verbatim_value_between_its_markers_is_parsed() -> None:
    text = "<c f><k s><![CDATA[</k> & ]]></k></c>"
    assert read(text, verbatim=("<![CDATA[", "]]>")) == call("f", '{"s": "</k> & "}')


def test_nested_tags_become_members_of_a_value() -> None:
    schema = {"properties": {"o": {"properties": {"n": {"type": "integer"}, "a": {"type": "array"}}}}}
    tags: dict[str, Any] = {"key_open": ("<",), "value_close": ("</{key}>",), "has_nested_values": True}
    family = family_of(replace(SYNTAX, **tags))
    text = "<c f><o><n>1</n> <a><item>x</item><item>2</item></a><s>a<b</s></o></c>"
    assert parsed(family, text, schemas={"f": schema}) == call("f", '{"o": {"n": 1, "a": ["x", 2], "s": "a<b"}}')


def test_string_mark_of_the_model_counts_only_where_the_schema_allows_it() -> None:
    pattern = r"(?P<key>\w+)(?: string=(?P<string>\w+))?"
    text = "<c f><k s string=false>1</k><k n string=true>2</k><k x string=true>3</k></c>"
    assert read(text, key_pattern=pattern) == call("f", '{"s": "1", "n": 2, "x": "3"}')
    assert read("<c f><k n string=true>two</k></c>", key_pattern=pattern) == call("f", '{"n": "two"}')


def test_closer_with_the_key_ends_the_value() -> None:
    assert read("<c f><s>a</n></s></c>", key_open=("<",), value_close=("</{key}>",)) == call("f", '{"s": "a</n>"}')


def test_type_between_key_and_value_says_whether_the_value_is_a_string() -> None:
    typed: dict[str, Any] = {"type_open": ("<t>",), "type_close": ("</t>",), "value_open": ("<v>",)}
    text = "<c f><k x><t>string</t><v>1</k><k y>\n<t>integer</t>\n<v>1</k><k z><v>1</k><k n><t>string</t><v>1</k></c>"
    assert read(text, **typed) == call("f", '{"x": "1", "y": 1, "z": 1, "n": 1}')
    assert read("<c f><k x><t>string<v>1</k></c> so", **typed) == [Text("<c f><k x><t>string<v>1</k></c> so")]


GLM = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}


@pytest.mark.parametrize("family", ["glm", "hunyuan3", "hyperclovax"])
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("<arg_key>s</arg_key>a b</arg_value>", '{"s": "a b"}'),
        ("<arg_key>s</arg_key>\na b</arg_value>\n<arg_key>n</arg_key>\n2</arg_value>", '{"s": "a b", "n": 2}'),
        ("<arg_key>n</arg_key><arg_value>2<arg_key>s</arg_key><arg_value>a b</arg_value>", '{"n": 2, "s": "a b"}'),
        ("<arg_key>s</arg_key><arg_value>a b\n<arg_key>n</arg_key><arg_value>2</arg_value>", '{"s": "a b", "n": 2}'),
    ],
)
def test_value_with_one_tag_missing_is_bounded_by_the_other_tags(family: str, arguments: str, meant: str) -> None:
    text = f"<tool_call>f\n{arguments}</tool_call>"
    assert parsed(family, text, schemas=GLM) == call("f", meant)
    assert parsed(family, f"{text}\n{text}", schemas=GLM) == [*call("f", meant), *call("f", meant)]


def test_value_without_any_tag_makes_the_call_incomplete() -> None:
    for arguments in ("<arg_key>s</arg_key>a", "<arg_key>s</arg_key>a<arg_key>n</arg_key><arg_value>1</arg_value>"):
        begin, *_, end = parsed("glm", f"<tool_call>f{arguments}</tool_call>", schemas=GLM)
        assert (begin, end) == (CallBegin("f"), CallEnd(False))


@pytest.mark.parametrize("mark", ["{0}DSML{0}", "{0}DSML{0} ", "{0}{0}DSML{0}{0}", "|DSML|"])
@pytest.mark.parametrize("section", ["function_calls", "tool_calls", "toolcalls", "functioncalls", "calls"])
@pytest.mark.parametrize("family", ["deepseek_v32", "deepseek_v4", "deepseek_v41"])
def test_dsml_is_read_with_the_marks_and_sections_of_all_versions(family: str, section: str, mark: str) -> None:
    mark = mark.format("\N{FULLWIDTH VERTICAL LINE}")
    value = f'<{mark}parameter name="s" string="true">a</{mark}parameter>'
    text = f'<{mark}{section}>\n<{mark}invoke name="f">\n{value}\n</{mark}invoke>\n</{mark}{section}>'
    assert parsed(family, f"Hi\n\n{text}", schemas=GLM) == [Text("Hi"), *call("f", '{"s": "a"}')]


def test_key_without_its_closer_ends_at_the_opener_of_its_value() -> None:
    assert read("<c f><k s<v>a</v></c>", value_open=("<v>",), value_close=("</v>",)) == call("f", '{"s": "a"}')


def test_closer_without_its_last_character_ends_a_value_before_a_tag() -> None:
    assert read("<c f><k s>a</k\n</c>") == call("f", '{"s": "a"}')
    assert read("<c f><k s>a</k\n<k n>1</k</c>") == call("f", '{"s": "a", "n": 1}')
    assert read("<c f><k s>a</k b</kk></k></c>") == call("f", '{"s": "a</k b</kk>"}')


def test_tool_may_name_the_tag_of_its_call() -> None:
    named: dict[str, Any] = {"open": ("<c>",), "name_open": ("<",), "name_close": ("</{key}>",)}
    text = "<c>\n<f>\n<k s>a</f> b</k>\n</f>\n</c> so"
    assert read(text, **named) == [*call("f", '{"s": "a</f> b"}'), Text("so")]
    assert read("<c><f></f></c>", **named) == call("f", "{}")
    assert read("<c> <b>bold</b> so", **named) == [Text("<c> <b>bold</b> so")]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('<c f><k arguments string=true>{"n": 1}</k></c>', '{"n": 1}'),
        ('<c f><k arguments string=false>"{\\"n\\": 1}"</k></c>', '{"n": 1}'),
        ('<c f>{"arguments": {"n": 1}}</c>', '{"n": 1}'),
        ('<c f>{"input": "{\\"n\\": 1}"}</c>', '{"n": 1}'),
        ('<c f>{"arguments": {"x": 1}}</c>', '{"arguments": {"x": 1}}'),
        ('<c f>{"n": 1.50}</c>', '{"n": 1.50}'),
        ("<c f><k arguments string=true>12</k></c>", '{"arguments": "12"}'),
        ("<c f><k arguments string=false>12</k></c>", '{"arguments": 12}'),
    ],
)
def test_wrapper_of_all_arguments_is_left_out_in_any_form(text: str, arguments: str) -> None:
    pattern = r"(?P<key>\w+)(?: string=(?P<string>\w+))?"
    assert read(text, key_pattern=pattern) == call("f", arguments)
