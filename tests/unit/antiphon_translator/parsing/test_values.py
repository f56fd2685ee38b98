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
        ("3.0", {"integer"}, "3"),
        ("-7.00", {"integer", "null"}, "-7"),
        ("7.0", {"integer", "string"}, "7"),
        ("1e3", {"integer"}, "1000"),
        ("1.5E+1", {"integer"}, "15"),
        ("700e-2", {"integer"}, "7"),
        ("7.5", {"integer"}, '"7.5"'),
        ("1e-3", {"integer"}, '"1e-3"'),
        ("1e400", {"integer"}, '"1e400"'),
        ("7.0", {"integer", "number"}, "7.0"),
        ("7.0", {"string"}, '"7.0"'),
        ("7.0", set(), "7.0"),
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
def test_text_is_converted_to_a_type_of_the_schema(text: str, types: set[str], written: str) -> None:
    assert values.as_json(text, frozenset(types)) == written


@pytest.mark.parametrize(
    ("word", "types", "written"),
    [("7.0", {"integer"}, "7"), ("7.5", {"integer"}, "7.5"), ("7.0", {"number"}, "7.0"), ("7.0", set(), "7.0")],
)
def test_whole_number_in_a_notation_with_quotes_is_an_integer_by_the_schema(
    word: str, types: set[str], written: str
) -> None:
    assert values.word_as_json(word, frozenset(types)) == written


def test_whole_numbers_in_a_value_are_integers_by_its_schema() -> None:
    whole, schema = {"type": ["integer", "null"]}, dict[str, object]()
    schema = {"properties": {"n": whole, "x": {"type": "number"}, "all": {"type": "array", "items": whole}}}
    given = '{"n": 7.0, "x": 7.0, "all": [1.0, 2.5, null], "other": 7.0}'
    assert values.with_integers(given, schema) == '{"n": 7, "x": 7.0, "all": [1, 2.5, null], "other": 7.0}'


def test_types_of_a_parameter_are_read_from_its_schema() -> None:
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


def test_member_schemas_in_alternatives_and_arrays_are_found() -> None:
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
def test_value_is_a_string_by_schema_and_by_the_mark_of_the_model(
    types: set[str], says: str | None, is_string: bool
) -> None:
    assert values.is_string(frozenset(types), says) is is_string


def test_only_json_strings_keep_their_quotes_when_marked_as_json() -> None:
    assert values.as_json('"a"', values.STRING, is_json=True) == '"a"'
    assert values.as_json("5", values.STRING, is_json=True) == '"5"'


def test_object_with_the_parameters_in_one_argument_is_a_wrapper() -> None:
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
def test_collected_members_make_an_array_or_an_object(
    members: list[tuple[str, str]], schema: dict[str, str], written: str
) -> None:
    assert values.collect(members, schema) == written


def test_joined_string_parts_equal_the_whole_string() -> None:
    text = 'a "b" \\ \n ☃'
    assert values.string(text) == '"' + "".join(map(values.string_part, text)) + '"'


@pytest.mark.parametrize(
    ("word", "types", "written"),
    [
        ("1.50", values.ANYTHING, "1.50"),
        ("True", values.ANYTHING, "true"),
        ("None", values.STRING, "null"),
        ("7", values.STRING, '"7"'),
        ("true", values.STRING, '"true"'),
        ("one two", values.ANYTHING, '"one two"'),
        ("NaN", values.ANYTHING, None),
        ("-Infinity", frozenset({"number"}), None),
        ("NaN", values.STRING, '"NaN"'),
    ],
)
def test_word_becomes_json(word: str, types: frozenset[str], written: str | None) -> None:
    assert values.word_as_json(word, types) == written


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'"a\n\"\u00e9"', 'a\n"é'),
        ('"a\nb"', "a\nb"),
        (r"'it\'s'", "it's"),
        ("'a\r\nb'", "a\r\nb"),
        ("'a\ud800b'", "a\ud800b"),
        (r'"\ud83d"', "\ufffd"),
        ('"a', None),
        (r'"\x"', None),
        ("'a' 'b", None),
        ("1", None),
    ],
)
def test_text_of_a_literal_is_decoded(written: str, text: str | None) -> None:
    assert values.text_of_literal(written) == text
