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
    found = {name: set(values.types_of(schema, name)) for name in values.names_of(schema)}
    assert found == {
        "plain": {"string"},
        "several": {"string", "null"},
        "union": {"integer", "null"},
        "choice": {"string", "integer"},
        "reference": {"object"},
        "open": set(),
    }
    assert values.types_of(None, "x") == values.types_of({"properties": []}, "x") == values.ANYTHING
    assert list(values.names_of(None)) == []


def test_pieces_of_a_string_are_the_string() -> None:
    text = 'a "b" \\ \n ☃'
    assert values.string(text) == '"' + "".join(map(values.string_part, text)) + '"'
