"""Schemas that apply to the same value, as one."""

from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.schemas.merging import CannotMerge, merge

CLOSED = {"properties": {"a": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"type": "string"}, {"minLength": 1}, {"type": "string", "minLength": 1}),
        ({"type": ["string", "number"]}, {"type": ["integer", "null"]}, {"type": "integer"}),
        ({"type": "string"}, {"type": "integer"}, {"type": []}),
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 5}, {"minimum": 3, "maximum": 5}),
        ({"enum": [1, "a", None]}, {"const": "a"}, {"enum": ["a"]}),
        ({"const": 1}, {"const": 2}, {"enum": []}),
        ({"enum": [1, True]}, {"enum": [True]}, {"enum": [True]}),
        ({"title": "A"}, {"title": "B", "description": "b"}, {"title": "A", "description": "b"}),
        (
            {"properties": {"a": {"minLength": 1}}, "required": ["a"]},
            {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["b", "a"]},
            {"properties": {"a": {"allOf": [{"minLength": 1}, {"type": "string"}]}, "b": {}}, "required": ["a", "b"]},
        ),
        (
            CLOSED,
            {"properties": {"b": {"type": "null"}}},
            {"properties": {"a": {"type": "string"}, "b": False}, "additionalProperties": False},
        ),
        (
            CLOSED | {"additionalProperties": {"type": "number"}},
            {"properties": {"b": {"minimum": 1}}},
            {
                "properties": {"a": {"type": "string"}, "b": {"allOf": [{"type": "number"}, {"minimum": 1}]}},
                "additionalProperties": {"type": "number"},
            },
        ),
    ],
)
def test_two_schemas_become_one(one: Object, other: Object, both: Object) -> None:
    assert merge(one, other) == both


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"anyOf": [{}]}, {"anyOf": [{"type": "null"}]}),
        ({"$ref": "#/$defs/a"}, {"type": "string"}),
        ({"prefixItems": [{}]}, {"items": {"type": "null"}}),
        (CLOSED, {"patternProperties": {"b": {}}}),
        ({"properties": {"a": {}}}, {"unevaluatedProperties": False}),
        ({"contains": {}}, {"contains": {"type": "null"}, "minContains": 0}),
    ],
)
def test_schemas_that_no_single_one_says_stay_apart(one: Object, other: Object) -> None:
    for pair in ((one, other), (other, one)):
        with pytest.raises(CannotMerge):
            merge(*pair)
