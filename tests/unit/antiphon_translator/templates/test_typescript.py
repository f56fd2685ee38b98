"""Types of schemas in TypeScript, and schemas that are malformed. tests/golden/harmony compares every form with
openai-harmony's."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_translator.templates.typescript import type_of


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "string", "enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": ["integer", "null"]}, "number | null"),
        ({"type": "array", "items": {"type": "boolean"}}, "boolean[]"),
        ({"type": "array"}, "Array<any>"),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "\n | string\n | number"),
        ({"anyOf": [{"type": "string"}]}, "any"),
    ],
)
def test_schema_is_written_as_its_type(schema: Any, written: str) -> None:
    assert type_of(schema) == written


def test_object_is_written_with_its_members_and_comments() -> None:
    members = {
        "city": {"type": "string", "description": "Where"},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "inner": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}},
    }
    assert type_of({"type": "object", "properties": members, "required": ["city"]}) == (
        '{\n// Where\ncity: string,\nunit?: "c" | "f", // default: c\n'
        "inner?: {\n    n?: number, // default: 1\n    },\n}"
    )


@pytest.mark.parametrize(
    "schema",
    [
        True,
        None,
        [],
        "string",
        {},
        {"type": 3},
        {"type": []},
        {"type": [3]},
        {"oneOf": "x"},
        {"items": 3, "type": "no such type"},
    ],
)
def test_malformed_schema_is_written_as_any(schema: Any) -> None:
    assert type_of(schema) == "any"


def test_malformed_member_schemas_are_written_as_any() -> None:
    assert type_of({"type": "object", "properties": {"a": True, "b": None}, "required": "a"}) == (
        "{\na?: any,\nb?: any,\n}"
    )
    assert type_of({"type": "object", "properties": []}) == "{\n}"
