from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from math import inf
from types import FrameType
from typing import Any, ClassVar, Literal

import pytest
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field

from antiphon_core.jsons import Object
from antiphon_translator.schemas import schemas, strict_schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

STRING: Object = {"type": "string"}
NULL: Object = {"type": "null"}


def closed(**properties: Any) -> Object:
    """An object schema in the strict subset."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> Object:
    schema = closed(x=STRING)
    for _ in range(levels - 1):
        schema = closed(x=schema)
    return schema


def check(schema: Object) -> None:
    outline = schemas.read_guidable(schema)
    strict_schemas.require(outline)


PASSING: dict[str, Object] = {
    "nothing in it": closed(),
    "no lists at all": {"type": "object", "additionalProperties": False},
    "plain values": closed(a=STRING, b={"type": "integer"}, c={"type": "number"}, d={"type": "boolean"}, e=NULL),
    "optional, as a union": closed(a={"type": ["string", "null"]}, b={"anyOf": [STRING, NULL]}),
    "OpenAI's own example": closed(unit={"type": ["string", "null"], "description": "Which.", "enum": ["F", "C"]}),
    "values": closed(a={"const": "x"}, b={"const": 1, "type": "integer"}, c={"enum": [1, None, "x"]}),
    "a whole number is an integer": closed(a={"type": "integer", "enum": [1.0, 2]}),
    "remarks": closed(a=STRING | {"title": "A", "default": "x", "examples": ["y"], "$comment": "z", "x-order": 1}),
    "as JavaScript clients send it": closed(a=STRING) | {"$schema": "http://json-schema.org/draft-07/schema#"},
    "definitions": closed(a={"$ref": "#/$defs/d", "description": "A d."}) | {"$defs": {"d": closed(b=STRING)}},
    "recursion": closed(next={"anyOf": [{"$ref": "#"}, NULL]}),
    "arrays": closed(a={"type": "array", "items": closed(b=STRING), "minItems": 1, "maxItems": 3}),
    "an array or nothing": closed(a={"type": ["array", "null"], "items": STRING}),
    "bounds": closed(a={"type": "integer", "minimum": 1, "maximum": 1}, b={"type": "number", "exclusiveMinimum": 0.5}),
    "texts": closed(
        a=STRING | {"pattern": "^[a-z]+$"}, b=STRING | {"format": "date"}, c=STRING | {"minLength": 1, "maxLength": 1}
    ),
    "as zod 4 writes formats": closed(a=STRING | {"format": "uuid", "pattern": "^[0-9a-f-]{36}$"}),
    "names that are keywords": closed(type=STRING, oneOf=STRING, additionalProperties=STRING, properties=STRING),
    "ten levels": nested(10),
    "ten levels, twice": nested(9) | {"$defs": {"d": nested(10)}},
}


@pytest.mark.parametrize("schema", PASSING.values(), ids=PASSING.keys())
def test_schema_in_the_strict_subset_is_accepted(schema: Object) -> None:
    check(schema)


A = "properties a"


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        # the root
        (STRING, "", "must have type 'object', but has type 'string'"),
        ({}, "", "must have type 'object', but has type None"),
        ({"type": ["object", "null"]}, "", "must have type 'object'"),
        ({"anyOf": [closed(), closed(a=STRING)]}, "", "must have type 'object'"),
        (closed() | {"anyOf": [closed()]}, "anyOf", "not one of several"),
        ({"$ref": "#/$defs/d", "$defs": {"d": closed()}}, "", "must have type 'object'"),
        # objects
        ({"type": "object", "properties": {}}, "", "'additionalProperties' is required"),
        (closed() | {"additionalProperties": True}, "", "'additionalProperties' is required"),
        (closed() | {"additionalProperties": {}}, "", "'additionalProperties' is required"),
        (closed(a=STRING, b=STRING) | {"required": ["a"]}, "", "Missing 'b'"),
        (closed(a=closed(b=STRING) | {"required": []}), A, "Missing 'b'"),
        (closed(a=STRING) | {"required": ["a", "c"]}, "required", "'c' is required, but neither in 'properties'"),
        (closed(a={"type": ["object", "null"], "properties": {}}), A, "'additionalProperties' is required"),
        (closed(a={"$ref": "#/$defs/d"}) | {"$defs": {"d": {"type": "object"}}}, "$defs d", "'additionalProperties'"),
        # arrays
        (closed(a={"type": "array"}), A, "must have 'items'"),
        (closed(a={"type": "array", "items": STRING, "uniqueItems": True}), A, "'uniqueItems' is not permitted"),
        (closed(a={"type": "array", "items": STRING, "contains": STRING}), A, "'contains' is not permitted"),
        (closed(a={"type": "array", "prefixItems": [STRING]}), A, "use an object with named properties"),
        (closed(a={"type": "array", "items": True}), f"{A} items", "must be an object, not true"),
        (closed(a={"type": "array", "items": {}}), f"{A} items", "must have a 'type' key"),
        # keywords without a grammar
        (closed() | {"allOf": [closed()]}, "", "'allOf' is not permitted; write its schemas as one"),
        (closed(a={"oneOf": [STRING, NULL]}), A, "'oneOf' is not permitted; use 'anyOf'"),
        (closed(a={"not": STRING}), A, "'not' is not permitted"),
        (closed() | {"if": {}, "then": {}}, "", "'if' is not permitted"),
        (closed() | {"dependentRequired": {}}, "", "'dependentRequired' is not permitted"),
        (closed() | {"patternProperties": {"a": STRING}}, "", "name the properties"),
        (closed() | {"propertyNames": STRING}, "", "'propertyNames' is not permitted; leave it out"),
        (closed(a=STRING) | {"minProperties": 1}, "", "'minProperties' is not permitted"),
        (closed(a={"type": "integer", "multipleOf": 5}), A, "'multipleOf' is not permitted"),
        (closed(a=STRING | {"nullable": True}), A, "use a type like ['string', 'null']"),
        (closed(a=STRING | {"minimum": 1}), A, "'minimum' is not permitted"),
        (closed(a=STRING | {"minLenght": 1}), A, "'minLenght' is not permitted"),
        # keywords that grammars ignore beside another keyword
        (closed(a={"enum": ["x"], "minLength": 1}), A, "'minLength' is not permitted beside 'enum'"),
        (closed(a={"const": "x", "enum": ["x"]}), A, "'enum' is not permitted beside 'const'"),
        (closed(a={"anyOf": [STRING], "type": "string"}), A, "'type' is not permitted beside 'anyOf'"),
        (
            closed(a={"$ref": "#/$defs/d", "minLength": 1}) | {"$defs": {"d": STRING}},
            A,
            "'minLength' is not permitted beside '$ref'",
        ),
        (closed(a=STRING | {"pattern": "^a$", "maxLength": 1}), A, "'pattern' is not permitted beside 'minLength'"),
        (closed(a=STRING | {"format": "date", "minLength": 1}), A, "'format' is not permitted beside 'minLength'"),
        (closed(a=STRING | {"format": "phone"}), f"{A} format", "'phone' is not supported; there is date"),
        # schemas that permit everything or nothing
        (closed(a={}), A, "must have a 'type' key"),
        (closed(a={"description": "Anything."}), A, "must have a 'type' key"),
        (closed(a=True), A, "must be an object, not true"),
        (closed(additionalProperties=False), "properties additionalProperties", "nothing can match this schema"),
        (closed(a={"anyOf": [STRING, True]}), f"{A} anyOf 1", "must be an object, not true"),
        (closed(a={"enum": []}), f"{A} enum", "no values"),
        (closed(a={"type": "string", "enum": ["x", 1]}), A, "the value 1 is not of type 'string'"),
        (closed(a={"type": "integer", "const": True}), f"{A} const", "no value that the type"),
        (closed(a={"type": ["integer", "null"], "enum": [1.5, 1]}), A, "the value 1.5 is not of type"),
        (closed(a={"type": "integer", "minimum": 2, "maximum": 1}), f"{A} minimum", "nothing can match"),
        (closed(a=STRING | {"minLength": 2, "maxLength": 1}), f"{A} minLength", "nothing can match"),
        (closed(a={"type": "integer", "minimum": 0.5}), f"{A} minimum", "must be an integer"),
        # errors that an older draft permits
        (
            closed(a={"$ref": "#/$defs/d"})
            | {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$defs": {"d": {"type": "integer", "minimum": "x"}},
            },
            "$defs d minimum",
            "not of type",
        ),
        # references
        (closed(a={"$ref": "#d"}) | {"$defs": {"d": STRING | {"$anchor": "d"}}}, f"{A} $ref", "a plain path"),
        (closed(a={"$ref": "#/$defs/d~0"}) | {"$defs": {"d~": STRING}}, f"{A} $ref", "a plain path"),
        (closed(a={"$dynamicRef": "#/$defs/d"}) | {"$defs": {"d": STRING}}, A, "'$dynamicRef' is not permitted"),
        # depth
        (nested(11), " ".join(["properties x"] * 10), "11 levels of nesting exceed the limit of 10"),
        (closed(x={"anyOf": [nested(10), NULL]}), "properties x anyOf 0" + " properties x" * 9, "11 levels"),
    ],
)
def test_schema_outside_the_strict_subset_is_rejected_with_its_path(schema: Object, path: str, words: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        check(schema)
    assert caught.value.path == tuple(path.split())
    assert words in caught.value.message


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Step(BaseModel):
    explanation: str
    colour: Colour
    again: Step | None = None


class Everything(BaseModel):
    """A model with all kinds of members that clients use."""

    steps: list[Step]
    kind: Literal["a", "b"]
    one: Literal["c"]
    count: int = Field(ge=1, le=5, description="How many.")
    ratio: float | None
    price: Decimal
    either: Step | Colour
    words: list[str] = Field(min_length=1)
    code: str = Field(pattern="^[A-Z]{3}$", default="ABC")


def test_schema_made_by_the_openai_sdk_is_accepted() -> None:
    check(to_strict_json_schema(Everything))


def wide(properties: int) -> Object:
    return closed(**{f"p{i}": STRING for i in range(properties)})


def calls_of(work: Callable[[], object], *, most: float = inf) -> int:
    """The number of calls of functions in `work`. AssertionError, in the middle of the work: there are more than
    `most`."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        assert calls <= most, f"more than {most:g} calls"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_strict_schema_with_5000_properties_is_accepted_in_linear_time() -> None:
    few, many = wide(50), wide(5_000)
    calls_of(lambda: check(many), most=110 * calls_of(lambda: check(few)))


class Name(str):
    """The name of a property that counts its comparisons."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        assert Name.compared <= 50_000
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def test_each_required_name_is_compared_with_few_properties() -> None:
    schema = wide(5_000)
    schema["required"] = [Name(name) for name in schema["required"]]
    strict_schemas.require(Outline(schema))
    assert Name.compared > 0
