from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.answer_check import AnswerCheck, answer_of

PERSON: Object = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
    "required": ["name"],
    "additionalProperties": False,
}
UNREADABLE = "it cannot be read as JSON, or is nested too deep"
TREE: Object = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}


def check(schema: Object) -> AnswerCheck:
    outline = schemas.read(schema)
    schemas.require_guidable(outline)
    return AnswerCheck(outline)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (PERSON, '{"name": "Ann", "tags": ["a"]}'),
        (PERSON, ' {"name":"\\u00e9"}\n'),
        (TREE, '{"next": {"next": null}}'),
        ({"type": "string", "pattern": "^a+$"}, '"aaa"'),
    ],
)
def test_valid_answer_has_no_mismatch(schema: Object, text: str) -> None:
    assert check(schema).mismatch(text) is None


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        (PERSON, "", UNREADABLE),
        (PERSON, "Ann", UNREADABLE),
        (PERSON, '{"name": "Ann"', UNREADABLE),
        (PERSON, '```json\n{"name": "Ann"}\n```', UNREADABLE),
        (PERSON, "[" * 500 + "]" * 500, UNREADABLE),
        (PERSON, "[]", "it does not match the schema at ('type',)"),
        (PERSON, "{}", "it does not match the schema at ('required',)"),
        (PERSON, '{"name": "Ann", "secret": 1}', "it does not match the schema at ('additionalProperties',)"),
        (PERSON, '{"name": 5}', "it does not match the schema at ('properties', 'name', 'type')"),
        (
            PERSON,
            '{"name": "Ann", "tags": ["a", "secret"]}',
            "it does not match the schema at ('properties', 'tags', 'items', 'enum')",
        ),
        (TREE, '{"next": {"next": 5}}', "it does not match the schema"),
        ({"type": "string", "pattern": "^a+$"}, '"secret"', "it does not match the schema at ('pattern',)"),
    ],
)
def test_mismatch_has_its_schema_path_and_not_the_answer(schema: Object, text: str, words: str) -> None:
    assert check(schema).mismatch(text) == words


def test_check_that_takes_too_long_is_skipped() -> None:
    doubling = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(100)}
    hostile = check({"$ref": "#/$defs/a0", "$defs": doubling | {"a100": {"type": "string"}}})
    assert hostile.mismatch('"x"') is None
    pattern = check({"pattern": r"^(\w*[a-z]){1000}1{1000}$"})
    assert pattern.mismatch('"' + "a" * (ANSWER_CHECK_NODES_MAX // 2_000) + '"') is None
    names = check({"patternProperties": {f"a{i}": True for i in range(10)}})
    assert names.mismatch('["' + "a" * (ANSWER_CHECK_NODES_MAX // 20_000) + '"]') is None
    assert check(PERSON).mismatch('{"name": "' + "a" * 1_000_000 + '"}') is None
    assert check(PERSON).mismatch('["' + "a" * 1_000_000 + '"]') is not None


def test_check_of_recursive_alternatives_takes_no_exponential_time() -> None:
    again: Object = {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    text = '{"a":' * 60 + "{}" + "}" * 60
    assert check({"anyOf": [again, again]}).mismatch(text) == "it does not match the schema"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "tags", "x"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_check_of_any_answer_returns_a_verdict(value: Any) -> None:
    verdict = check(PERSON).mismatch(dumps(value).decode())
    assert verdict is None or verdict.startswith("it does not match the schema at (")


def message(*texts: str) -> Object:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([], None),
        ([message("{}")], "{}"),
        ([{"type": "reasoning", "content": []}, message("{", "}")], "{}"),
        ([message("I'll look."), {"type": "function_call"}], None),
        ([message("I'll look."), message("{}")], "{}"),
        ([{"type": "reasoning", "content": []}], None),
    ],
)
def test_answer_is_the_message_at_the_end_of_a_response(output: list[Object], text: str | None) -> None:
    assert answer_of(output) == text


def test_mismatch_of_output_items_is_that_of_its_answer() -> None:
    person = check(PERSON)
    assert person.mismatch_of([message('{"name":"Ann"}')]) is None
    assert person.mismatch_of([{"type": "function_call"}]) is None
    assert person.mismatch_of([message("")]) == UNREADABLE
