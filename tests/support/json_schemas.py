"""Random JSON schemas, of the forms that clients send and of forms that they should not, and random values."""

from __future__ import annotations

from random import Random
from typing import Any

from antiphon_core.jsons import Object

NAMES = ("a", "b", "c")
DEFINITIONS = ("d", "e")
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
PATTERNS = ("^a+$", "^[a-c]{1,3}$", "^(a|b)*$", "b")
VALUES = (None, True, False, 0, 1, 2, 5, 1.5, "", "a", "ab", "abc")


def schema_of(random: Random, depth: int = 3) -> Object:
    """A schema with definitions that its parts may refer to. It may contradict itself."""
    definitions = {name: nested(random, depth - 1) for name in DEFINITIONS}
    return _described(random, depth) | {"$defs": definitions}


def nested(random: Random, depth: int) -> Any:
    """A schema within another one: an object or a boolean."""
    kind = random.random()
    if kind < 0.05:
        return kind < 0.03
    if depth <= 0:
        return {"type": random.choice(TYPES[2:])}
    if kind < 0.2:
        return {"$ref": random.choice(["#", "#/$defs/d", "#/$defs/e"])} | (
            _bounds(random) if random.random() < 0.3 else {}
        )
    return _described(random, depth)


def value_of(random: Random, depth: int = 2) -> Any:
    kind = random.random() if depth else 1.0
    if kind < 0.35:
        return {name: value_of(random, depth - 1) for name in NAMES if random.random() < 0.5}
    if kind < 0.5:
        return [value_of(random, depth - 1) for _ in range(random.randrange(3))]
    return random.choice(VALUES)


def _described(random: Random, depth: int) -> Object:
    given = random.choices(TYPES, weights=[5, 2, 2, 1, 1, 1, 1])[0]
    schema: Object = {"type": given} if random.random() < 0.85 else {}
    if random.random() < 0.1:
        schema["type"] = random.sample(TYPES, 2)
    if given == "object":
        schema |= _object(random, depth)
    elif given == "array":
        schema |= _array(random, depth)
    else:
        schema |= _bounds(random)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if random.random() < 0.12:
            schema[keyword] = [nested(random, depth - 1) for _ in range(random.randint(1, 2))]
    if random.random() < 0.04:
        schema["not"] = nested(random, depth - 1)
    return schema


def _object(random: Random, depth: int) -> Object:
    properties = {name: nested(random, depth - 1) for name in NAMES if random.random() < 0.6}
    required = [name for name in NAMES if random.random() < (0.5 if name in properties else 0.02)]
    members: Object = {"properties": properties, "required": required}
    if random.random() < 0.6:
        members["additionalProperties"] = False if random.random() < 0.8 else nested(random, depth - 1)
    return members | _some(random, minProperties=random.randrange(3), maxProperties=random.randrange(4))


def _array(random: Random, depth: int) -> Object:
    members: Object = {}
    if random.random() < 0.8:
        members["items"] = nested(random, depth - 1)
    if random.random() < 0.2:
        members["prefixItems"] = [nested(random, depth - 1) for _ in range(random.randint(1, 2))]
    return members | _some(random, minItems=random.randrange(3), maxItems=random.randrange(4))


def _bounds(random: Random) -> Object:
    return _some(
        random,
        minimum=random.randint(-3, 5),
        maximum=random.randint(-3, 5),
        exclusiveMinimum=random.randint(-3, 5),
        exclusiveMaximum=random.randint(-3, 5),
        multipleOf=random.choice([1, 2, 3, 0.5]),
        minLength=random.randrange(3),
        maxLength=random.randrange(3),
        pattern=random.choice(PATTERNS),
        enum=random.sample(VALUES, random.randrange(4)),
        const=random.choice(VALUES),
        format=random.choice(["date", "uuid", "email"]),
    )


def _some(random: Random, **members: Any) -> Object:
    return {name: value for name, value in members.items() if random.random() < 0.15}
