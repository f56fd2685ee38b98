"""Schemas that no value matches."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.schemas import contradictions
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

INTEGER, STRING, ANY = {"type": "integer"}, {"type": "string"}, dict[str, Any]()
ARRAY = {"type": "array"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}


def of(x: Any, **members: Any) -> Object:
    return {"type": "object", "properties": {"x": x}, "required": ["x"], "additionalProperties": False} | members


X = "properties x"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        # bounds
        (of(INTEGER | {"minimum": 5, "maximum": 1}), f"{X} minimum"),
        (of({"minimum": 5, "maximum": 1}), f"{X} minimum"),
        (of({"type": ["number", "null"], "minimum": 5, "exclusiveMaximum": 5}), f"{X} minimum"),
        (of(INTEGER | {"exclusiveMinimum": 5, "exclusiveMaximum": 6}), f"{X} exclusiveMinimum"),
        (of(INTEGER | {"minimum": 1.2, "maximum": 1.8}), f"{X} minimum"),
        (of({"type": "number", "multipleOf": 0.7, "minimum": 0.1, "maximum": 0.6}), f"{X} minimum"),
        (of(INTEGER | {"minimum": 1, "maximum": 2, "exclusiveMaximum": True}), None),
        (of(INTEGER | {"minimum": 2, "maximum": 2, "exclusiveMaximum": True}), f"{X} minimum"),
        (of(STRING | {"minLength": 5, "maxLength": 1}), f"{X} minLength"),
        (of(ARRAY | {"minItems": 3, "maxItems": 1}), f"{X} minItems"),
        (of({"type": "object", "minProperties": 3, "maxProperties": 1}), f"{X} minProperties"),
        (of({"type": "object", "required": ["a", "b"], "maxProperties": 1}), f"{X} maxProperties"),
        # values
        (of({"enum": []}), f"{X} enum"),
        (of({"const": 1, "enum": [2, 3]}), f"{X} const"),
        (of(INTEGER | {"const": "a"}), f"{X} const"),
        (of({"type": ["string", "null"], "enum": [1, True]}), f"{X} enum"),
        (of({"enum": [1, 2], "minimum": 5}), f"{X} enum"),
        (of({"const": "abc", "maxLength": 2}), f"{X} const"),
        (of({"type": []}), f"{X} type"),
        # names
        (of(ANY, required=["x", "y"]), "required"),
        (of(ANY, minProperties=2), "minProperties"),
        # false
        (of(False), X),
        (of({"not": True}), X),
        (of({"anyOf": [False, {"not": {}}]}), f"{X} anyOf 0"),
        (of({"allOf": [ANY, False]}), f"{X} allOf 1"),
        (of({"$ref": "#/$defs/no"}) | {"$defs": {"no": False}}, "$defs no"),
        (of(ARRAY | {"items": False, "minItems": 1}), f"{X} items"),
        (of(ARRAY | {"prefixItems": [STRING, False], "minItems": 2}), f"{X} prefixItems 1"),
        (of(ARRAY | {"contains": False}), f"{X} contains"),
        (of({"const": 1, "enum": [True]}), f"{X} const"),
        # values within values without end
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, ""),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}, "properties a"),
        (of({"type": "array", "items": {"$ref": "#"}, "minItems": 1}), ""),
        # wherever they are
        ({"anyOf": [STRING, of({"enum": []})]}, f"anyOf 1 {X} enum"),
        ({"$defs": {"a": {"enum": []}}}, "$defs a enum"),
        ({"additionalProperties": {"items": {"minLength": 2, "maxLength": 1}}}, "additionalProperties items minLength"),
    ],
)
def test_schema_that_nothing_matches_is_rejected_with_its_path(schema: Object, path: str | None) -> None:
    if path is None:
        contradictions.require(Outline(schema))
        return
    with pytest.raises(InvalidSchema) as raised:
        contradictions.require(Outline(schema))
    assert " ".join(raised.value.path) == path


@pytest.mark.parametrize(
    "schema",
    [
        of({"minimum": 1, "maximum": 1}),
        of(STRING | {"minimum": 5, "maximum": 1}),
        of(INTEGER | {"const": 1.0, "enum": [1]}),
        of(STRING | {"enum": ["a", None]}),
        of({"const": 1e30, "enum": [1e30]}),
        of({"enum": ["abc", None, 7], "minimum": 5, "maxLength": 1}),
        {"properties": {"x": False}},
        {"type": "object", "properties": {"x": {"not": {}}}, "additionalProperties": False},
        of({"anyOf": [False, STRING]}),
        of({"type": ["array", "null"], "items": False, "minItems": 1}),
        of(ARRAY | {"items": False}),
        of(ANY, additionalProperties=True, required=["y"]),
        of(ANY, patternProperties={"y": ANY}, required=["y"]),
        {"not": {"enum": []}},
        {"if": {"minimum": 5, "maximum": 1}, "then": False},
        {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
        {"properties": {"next": {"$ref": "#"}}, "required": ["next"]},
        {"type": "array", "items": {"$ref": "#"}},
    ],
)
def test_schema_that_a_value_matches_is_accepted(schema: Object) -> None:
    contradictions.require(Outline(schema))


def test_work_grows_with_the_schema_and_not_with_its_square() -> None:
    names = [f"p{number}" for number in range(3_000)]
    parts = {each: {"$ref": f"#/$defs/{after}"} for each, after in zip(names, [*names[1:], "end"], strict=True)}
    chain: Object = {"$ref": "#/$defs/p0", "$defs": parts | {"end": STRING}}
    counted = Counted(chain)
    contradictions.require(counted)
    assert counted.lookups < 10 * len(names)


class Counted(Outline):
    """An outline that counts lookups of references."""

    def __init__(self, schema: Object) -> None:
        super().__init__(schema)
        self.lookups = 0

    def target(self, reference: str) -> Any:
        self.lookups += 1
        return super().target(reference)
