"""Boolean schemas, written as objects."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_translator.schemas.boolean_schemas import written_out


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"properties": {"x": True, "y": False}}, {"properties": {"x": {}, "y": {"not": {}}}}),
        ({"items": True}, {"items": {}}),
        ({"prefixItems": [True, {"anyOf": [False]}]}, {"prefixItems": [{}, {"anyOf": [{"not": {}}]}]}),
        (
            {"$defs": {"a": {"additionalProperties": {"not": True}}}},
            {"$defs": {"a": {"additionalProperties": {"not": {}}}}},
        ),
    ],
)
def test_boolean_schema_becomes_an_object(schema: Any, written: Any) -> None:
    assert written_out(schema) == written


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {}}, "additionalProperties": False},
        {"properties": {"x": {"default": True, "enum": [True, False], "const": False, "uniqueItems": True}}},
        {"additionalProperties": True, "unevaluatedProperties": False, "deprecated": True},
    ],
)
def test_schema_without_boolean_ones_is_the_same_object(schema: Any) -> None:
    assert written_out(schema) is schema
