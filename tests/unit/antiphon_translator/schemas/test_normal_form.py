"""The normal form of schemas: the same values, in the keywords that grammars read."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import pytest

from antiphon_core.jsons import Object, dumps
from antiphon_translator.schemas import normal_form, schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline
from tests.support.json_schemas import schema_of, value_of
from tests.support.volume import volume

STRING = {"type": "string"}
PAIR = {"a": {"type": "string"}, "b": {"type": "null"}}


def normal(schema: Object) -> Object:
    return normal_form.of(Outline(schema))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        # booleans
        ({"properties": {"a": True, "b": False}}, {"properties": {"a": {}}}),
        ({"items": True}, {"items": {}}),
        ({"items": False}, {"items": {}, "maxItems": 0}),
        ({"prefixItems": [STRING, True], "items": False}, {"prefixItems": [STRING, {}], "maxItems": 2}),
        ({"prefixItems": [STRING, False]}, {"prefixItems": [STRING], "maxItems": 1}),
        ({"anyOf": [STRING, False, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"type": "string", "anyOf": [{"minLength": 1}, True]}, STRING),
        ({"additionalProperties": True, "not": False}, {"additionalProperties": True}),
        # one schema of several
        ({"allOf": [STRING]}, STRING),
        ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, {"type": "integer", "minimum": 5}),
        ({"allOf": [{"allOf": [STRING]}, {"anyOf": [{"minLength": 1}]}]}, STRING | {"minLength": 1}),
        ({"anyOf": [STRING, False], "minLength": 1}, STRING | {"minLength": 1}),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, {"pattern": "a", "allOf": [{"pattern": "b"}]}),
        (
            {"allOf": [{"properties": {"a": STRING}}, {"properties": {"a": {"minLength": 1}, "b": True}}]},
            {"properties": {"a": STRING | {"minLength": 1}, "b": {}}},
        ),
        (
            {"type": "object", "properties": {"a": STRING}, "anyOf": [{"required": ["a"]}, {"maxProperties": 0}]},
            {
                "anyOf": [
                    {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
                    {"type": "object", "properties": {"a": STRING}, "maxProperties": 0},
                ]
            },
        ),
        (
            {"type": "string", "oneOf": [{"type": "null"}, {"minLength": 1}], "title": "T"},
            STRING | {"minLength": 1, "title": "T"},
        ),
        (
            {"minimum": 5, "anyOf": [{"maximum": 1}, {"minimum": 9}, {"maximum": 7}], "type": "integer"},
            {"anyOf": [{"type": "integer", "minimum": 9}, {"type": "integer", "minimum": 5, "maximum": 7}]},
        ),
        (
            {"minLength": 5, "anyOf": [{"type": ["string", "null"], "maxLength": 3}, {"type": "string"}]},
            {
                "anyOf": [
                    {"minLength": 5, "type": ["string", "null"], "maxLength": 3},
                    {"minLength": 5, "type": "string"},
                ]
            },
        ),
        # references
        (
            {"allOf": [{"$ref": "#/$defs/a"}], "title": "T", "$defs": {"a": STRING}},
            {"$ref": "#/$defs/a", "title": "T", "$defs": {"a": STRING}},
        ),
        ({"$ref": "#/definitions/a", "minLength": 1, "definitions": {"a": STRING}}, STRING | {"minLength": 1}),
        (
            {"items": {"$ref": "#"}},
            {"items": {"$ref": "#/$defs/schema"}, "$defs": {"schema": {"items": {"$ref": "#/$defs/schema"}}}},
        ),
        (
            {"items": {"$ref": "#x"}, "definitions": {"a b": STRING | {"$anchor": "x"}}},
            {"items": {"$ref": "#/$defs/schema"}, "$defs": {"schema": STRING}},
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/definitions/x"}}, "$defs": {"x": STRING}}
            | {"definitions": {"x": {"type": "null"}}},
            {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x-2"}}}
            | {"$defs": {"x": STRING, "x-2": {"type": "null"}}},
        ),
        # values
        ({"type": "integer", "minimum": 1.5, "maximum": 4.0}, {"type": "integer", "minimum": 2, "maximum": 4}),
        (
            {"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4.5},
            {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 5},
        ),
        (STRING | {"enum": ["a", None]}, STRING | {"enum": ["a"]}),
        ({"enum": [1, 7, "abc"], "minimum": 5, "maxLength": 2}, {"enum": [7], "minimum": 5, "maxLength": 2}),
    ],
)
def test_schema_is_written_in_keywords_that_grammars_read(schema: Object, expected: Object) -> None:
    assert normal(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": PAIR, "required": ["a", "b"], "additionalProperties": False},
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"k": {"$ref": "#/$defs/n"}}}}},
        {"anyOf": [STRING, {"type": "null"}], "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"oneOf": [{"$ref": "#/$defs/x"}, {"type": "null"}], "discriminator": {}, "$defs": {"x": STRING}},
    ],
)
def test_schema_without_such_keywords_stays_as_it_was_written(schema: Object) -> None:
    assert normal(schema) is schema


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"allOf": [STRING, {"type": "integer"}]}, "type"),
        ({"properties": {"a": STRING | {"anyOf": [{"type": "null"}, {"type": "integer"}]}}}, "properties a type"),
        ({"properties": {"a": {"allOf": [{"minimum": 5}, {"maximum": 1}]}}}, "properties a minimum"),
        ({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": STRING | {"minLength": 2}}}, "minLength"),
        (
            {"allOf": [{"type": "object", "properties": {name: {}}, "required": [name], "additionalProperties": False}
                       for name in "ab"]},
            "properties a",
        ),
    ],
)  # fmt: skip
def test_schemas_that_contradict_each_other_are_rejected(schema: Object, path: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        schemas.read(schema)
    assert " ".join(raised.value.path) == path


SCHEMAS = volume(600, 30_000)


def test_normal_form_matches_the_same_values() -> None:
    compared = 0
    for seed in range(SCHEMAS):
        random = Random(seed)
        schema = schema_of(random)
        try:
            outline = schemas.read_guidable(schema)
        except InvalidSchema:
            continue
        compared += 1
        # An object that forbids one name and permits others only loses the name: grammars have no word for it.
        may_be_wider = b"false" in dumps(schema) or b'"not"' in dumps(schema)
        before, after = (jsonschema_rs.validator_for(each) for each in (schema, normal_form.of(outline)))
        for _ in range(20):
            value = value_of(random)
            is_valid, is_normal_valid = before.is_valid(value), after.is_valid(value)
            assert is_valid == is_normal_valid or (is_normal_valid and may_be_wider), (seed, dumps(value))
    assert compared > SCHEMAS / 20


def test_schema_that_is_rejected_as_impossible_matches_nothing() -> None:
    rejected = 0
    for seed in range(SCHEMAS):
        random = Random(seed)
        schema = schema_of(random)
        flaw = _flaw(schema)
        if flaw is None or len(flaw.path) > 1 or not isinstance(schema.get("type"), str):
            continue  # a part of a schema, or the values of one type, may be impossible where the whole is not
        if Outline(schema).loop() is None:
            rejected += 1
            validator = jsonschema_rs.validator_for(schema)
            assert not any(validator.is_valid(value_of(random)) for _ in range(20)), (seed, flaw)
    assert rejected > SCHEMAS / 50


def _flaw(schema: Object) -> InvalidSchema | None:
    try:
        schemas.read(schema)
    except InvalidSchema as flaw:
        return flaw
    return None


def test_recursion_with_siblings_ends() -> None:
    node: Object = {"properties": {name: {"$ref": "#/$defs/n", "minProperties": 1} for name in "abcdefgh"}}
    written = normal({"$ref": "#/$defs/n", "minProperties": 1, "$defs": {"n": node}})
    assert len(dumps(written)) < 20 * normal_form.WORK_MAX


def test_reference_that_cannot_be_merged_stays_one() -> None:
    node = {"$ref": "#/$defs/n", "patternProperties": {"^x": {}}}
    schema = node | {"$defs": {"n": {"properties": dict.fromkeys("abcd", node), "patternProperties": {"^y": {}}}}}
    assert len(dumps(normal(schema))) < 10 * len(dumps(schema))


def test_doubling_definitions_end() -> None:
    ends: dict[str, Any] = {"d0": {"type": "null"}}
    for level in range(1, 40):
        below = {"$ref": f"#/$defs/d{level - 1}", "description": "x", "minProperties": 0}
        ends[f"d{level}"] = {"properties": {"a": below, "b": below}}
    written = normal({"$ref": "#/$defs/d39", "minProperties": 0, "$defs": ends})
    assert len(dumps(written)) < 20 * normal_form.WORK_MAX


def test_merging_of_many_schemas_stops() -> None:
    written = normal({"allOf": [{"properties": {f"p{number}": {}}} for number in range(2_000)]})
    assert 100 < len(written["properties"]) < 2_000
    assert len(written["properties"]) + len(written["allOf"]) == 2_000
