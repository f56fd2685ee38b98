from __future__ import annotations

import json

import pytest

from antiphon_translator.parsing import values


@pytest.mark.parametrize(
    ("text", "types", "written"),
    [
        ("3", {"string"}, '"3"'),
        (" 3 ", {"integer"}, "3"),
        ("3", {"number"}, "3"),
        ("3.0", {"integer"}, '"3.0"'),
        ("1e20", {"number"}, "1e20"),
        ("123456789012345678901234567890", {"integer"}, "123456789012345678901234567890"),
        ("true", {"boolean"}, "true"),
        ("True", {"boolean"}, "true"),
        ("None", {"null", "string"}, "null"),
        ("null", {"string", "null"}, "null"),
        ("NaN", {"number"}, '"NaN"'),
        ('{"a": [1]}', {"object"}, '{"a": [1]}'),
        ("{'a': True}", {"object"}, '{"a": true}'),
        (r"['a\ud83d', '\ud83d\ude00']", {"array"}, '["a\ufffd", "\U0001f600"]'),
        ("{'a': }", {"object"}, json.dumps("{'a': }")),
        ('"quoted"', {"object"}, '"quoted"'),
        ("3", set(), "3"),
        ("word", set(), '"word"'),
        ("naïve ☃", {"string"}, '"naïve ☃"'),
    ],
)
def test_a_text_becomes_what_the_schema_allows(text: str, types: set[str], written: str) -> None:
    assert values.as_json(text, frozenset(types)) == written


def test_the_types_of_a_parameter() -> None:
    schema = {
        "properties": {
            "plain": {"type": "string"},
            "several": {"type": ["string", "null"]},
            "union": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "choice": {"enum": ["a", 1]},
            "reference": {"$ref": "#/x"},
            "open": {},
        }
    }
    found = {name: set(values.types_of(values.member(schema, name))) for name in values.names_of(schema)}
    assert found == {
        "plain": {"string"},
        "several": {"string", "null"},
        "union": {"integer", "null"},
        "choice": {"string", "integer"},
        "reference": {"object"},
        "open": set(),
    }
    assert values.types_of(values.member({"properties": []}, "x")) == values.ANYTHING
    assert list(values.names_of({})) == []


def test_the_members_of_alternatives_and_of_arrays_are_found() -> None:
    schema: dict[str, object] = {
        "anyOf": [{"type": "null"}, {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}]
    }
    element = values.member(schema, "item")
    assert values.types_of(values.member(element, "n")) == {"integer"}
    assert values.member(element, "other") == {}


@pytest.mark.parametrize(
    ("types", "says", "is_string"),
    [
        ({"string"}, None, True),
        ({"string", "integer"}, None, False),
        ({"string", "integer"}, "true", True),
        (set(), "true", True),
        ({"integer"}, "true", False),
        ({"string"}, "false", False),
    ],
)
def test_a_value_is_a_string_where_the_schema_or_the_model_says_so(
    types: set[str], says: str | None, is_string: bool
) -> None:
    assert values.is_string(frozenset(types), says) is is_string


def test_json_that_is_said_to_be_json_stays_what_it_is() -> None:
    assert values.as_json('"a"', values.STRING, is_json=True) == '"a"'
    assert values.as_json("5", values.STRING, is_json=True) == '"5"'


def test_all_arguments_may_stand_in_one() -> None:
    schema: dict[str, object] = {"properties": {"city": {}, "days": {}}}
    assert values.may_be_wrapper(schema, "arguments")
    assert not values.may_be_wrapper(schema, "city")
    assert not values.may_be_wrapper({"properties": {"arguments": {}}}, "arguments")
    assert not values.may_be_wrapper({}, "arguments")
    assert values.is_wrapper(schema, ' {"city": "Paris"}')
    assert not any(values.is_wrapper(schema, text) for text in ('{"town": "Paris"}', "{}", "Paris", "[]"))


@pytest.mark.parametrize(
    ("members", "schema", "written"),
    [
        ([("item", "1"), ("item", '"a"')], {}, '[1, "a"]'),
        ([("item", "1")], {"type": "object"}, '{"item": 1}'),
        ([("n", "1"), ("item", "2")], {}, '{"n": 1, "item": 2}'),
    ],
)
def test_members_make_an_array_or_an_object(
    members: list[tuple[str, str]], schema: dict[str, str], written: str
) -> None:
    assert values.collected(members, schema) == written


def test_pieces_of_a_string_are_the_string() -> None:
    text = 'a "b" \\ \n ☃'
    assert values.string(text) == '"' + "".join(map(values.string_part, text)) + '"'
