from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import Fragment, Object, dumps
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX, JSON_VALUES_MAX
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.answer_check import AnswerCheck, Unchecked, answer_of

PERSON: Object = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
    "required": ["name"],
    "additionalProperties": False,
}
UNREADABLE = "it cannot be read as JSON, or is nested too deep"
TREE: Object = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}


def check(schema: Object) -> AnswerCheck:
    outline = schemas.read_guidable(schema)
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


def doubling(levels: int, **members: Any) -> Object:
    """A schema in which each of these levels is twice in the one above it; `members` are beside each."""
    keyword = members.pop("keyword", "allOf")
    names = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2, **members} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": names | {f"a{levels}": {"prefixItems": [True]}}}


def repeated(value: Any, count: int) -> str:
    return dumps([value] * count).decode()


OBJECTS: list[Object] = [{"a": "x", "b": n} for n in range(1_000)]
COSTLY: dict[str, tuple[Object, str]] = {
    "references that double": (doubling(20), "[1, 2, 3]"),
    "alternatives that double": (doubling(20, keyword="anyOf"), "[1, 2, 3]"),
    "one of two that double": (doubling(20, keyword="oneOf"), "[1, 2, 3]"),
    "a hundred doublings": (doubling(100), "[1]"),
    "unevaluated items, each level twice": (doubling(9, keyword="anyOf", unevaluatedItems=True), "[1]"),
    "comparisons with objects": ({"items": {"enum": OBJECTS}}, repeated(OBJECTS[-1], 1_000)),
    "comparisons with arrays": ({"items": {"enum": [[1] * 20 + [n] for n in range(1_000)]}}, repeated([1], 1_000)),
    "comparisons with one large constant": ({"items": {"const": [OBJECTS]}}, repeated(OBJECTS, 5)),
    "options of several types": ({"items": {"enum": [*map(str, range(999)), 1]}}, repeated("998", 3_000)),
    "multiples of a small fraction": ({"items": {"multipleOf": 1e-300}}, repeated(1e300, 1_000)),
    "multiples of a cent": ({"items": {"multipleOf": 0.01}}, repeated(1e15, 2_000)),
    "names of many properties": (
        {"items": {"properties": {f"p{n}": {"type": "string"} for n in range(4_000)}}},
        repeated({}, 1_000),
    ),
    "a pattern of many states": ({"pattern": r"^(\w*[a-z]){1000}1{1000}$"}, '"' + "a" * 10_000 + '"'),
    "many patterns of names": (
        {"patternProperties": {f"a.{{0,{n}}}b": True for n in range(10, 42)}},
        dumps({f"{'a' * 50}{n}": 1 for n in range(200)}).decode(),
    ),
    "lengths of a long string": ({"allOf": [{"minLength": n} for n in range(500)]}, '"' + "x" * 3_000_000 + '"'),
    "many values": ({"type": "array"}, repeated(1, JSON_VALUES_MAX + 1)),
}


@pytest.mark.parametrize(("schema", "text"), COSTLY.values(), ids=COSTLY)
def test_check_that_would_take_too_long_is_left_out(schema: Object, text: str) -> None:
    with pytest.raises(Unchecked):
        check(schema).mismatch(text)


ROW: Object = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "on": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "price": {"type": "number", "multipleOf": 0.01},
        "state": {"enum": [f"state {n}" for n in range(200)]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "of": {"anyOf": [{"type": "object", "properties": {"name": {"type": "string"}}}, {"type": "null"}]},
    },
    "required": ["id", "on", "price", "state"],
}
A_ROW: Object = {"id": 1, "on": "2026-11-29", "price": 1, "state": "state 9", "tags": ["a", "b"], "of": {"name": "x"}}
FORM: Object = {"type": "object", "properties": {f"field {n}": {"type": "string"} for n in range(1_000)}}
HONEST: dict[str, tuple[Object, str]] = {
    "rows of a table": ({"type": "array", "items": ROW}, repeated(A_ROW, 100)),
    "a thousand fields": (FORM, dumps({f"field {n}": "text " * 9 for n in range(1_000)}).decode()),
    "an article": (PERSON, '{"name": "' + "An article. " * 100_000 + '"}'),
    "a column of numbers": ({"type": "array", "items": {"type": "number"}}, repeated(1.5, 100_000)),
    "options of one type": ({"type": "array", "items": {"enum": list(range(1_000))}}, repeated(999, 10_000)),
    "text with a pattern": ({"type": "string", "pattern": r"^[\w\s.,]+$"}, '"' + "a word " * 5_000 + '"'),
}


@pytest.mark.parametrize(("schema", "text"), HONEST.values(), ids=HONEST)
def test_long_answer_by_an_ordinary_schema_is_checked(schema: Object, text: str) -> None:
    assert check(schema).mismatch(text) is None
    assert check(schema).mismatch('["a", null]') is not None


def test_check_beyond_the_budget_is_left_out() -> None:
    asked: list[int] = []

    def may_take(nodes: int) -> bool:
        asked.append(nodes)
        return len(asked) < 2

    assert check(PERSON).mismatch('{"name": "Ann"}', may_take) is None
    with pytest.raises(Unchecked):
        check(PERSON).mismatch('{"name": "Ann"}', may_take)
    assert 0 < asked[0] == asked[1] < ANSWER_CHECK_NODES_MAX


def test_work_of_a_check_is_known_before_its_answer() -> None:
    assert check(PERSON).work_bytes(0) == 0
    assert 0 < check(PERSON).work_bytes(1_000) < check(PERSON).work_bytes(10_000)
    assert check(doubling(100)).work_bytes(1) == ANSWER_CHECK_NODES_MAX // 8


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
    parts = [{"type": "output_text", "text": Fragment(dumps(text))} for text in texts]
    return {"type": "message", "content": parts}


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
