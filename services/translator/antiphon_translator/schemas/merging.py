"""Merges two schemas that apply to the same value into one, as `allOf` does.

Grammar engines read only some of the keywords beside an `allOf` or a `$ref`. A merged schema says the same in keywords
that they read. What cannot be merged exactly is left apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from antiphon_core.jsons import Object, canonical
from antiphon_translator.schemas.schema_outline import KEYWORDS, REFERENCES

_SCALARS = (
    "type enum const multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength pattern format "
    "minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required dependentRequired"
)
CONSTRAINTS = frozenset([*KEYWORDS, *REFERENCES, *_SCALARS.split()]) - {"$defs", "definitions", "contentSchema"}
"""The keywords that constrain values. All others are remarks, also those of other vendors, such as `discriminator`."""
_EXACT_MAX = 2**53
_VALUES = frozenset(["const", "enum"])
_NESTED_OBJECT = ("properties", "additionalProperties")
_WITH_SIBLINGS = frozenset(
    "patternProperties unevaluatedProperties unevaluatedItems additionalItems prefixItems contains minContains "
    "maxContains if then else not anyOf oneOf allOf $ref dependentSchemas dependencies".split()
)
"""Keywords whose meaning depends on others, or that a schema can have only once. Two schemas with the same one, or
with two of a group, are not merged."""
_GROUPS: tuple[frozenset[str], ...] = (
    frozenset(["items", "prefixItems", "additionalItems", "unevaluatedItems"]),
    frozenset(["properties", "additionalProperties", "patternProperties", "unevaluatedProperties"]),
    frozenset(["contains", "minContains", "maxContains"]),
    frozenset(["if", "then", "else"]),
)


class CannotMerge(Exception):
    """No single schema says the same."""


def merge(one: Object, other: Object) -> Object:
    """The schema of the values that match both. CannotMerge: it cannot be written."""
    _require_apart(one, other)
    if _VALUES & one.keys() and _VALUES & other.keys():
        one, other = _with_enum(one), _with_enum(other)
    both = one | {name: value for name, value in other.items() if name not in one}
    for name in [name for name in other if name in one and name not in _NESTED_OBJECT]:
        if name in CONSTRAINTS and one[name] != other[name]:
            both[name] = _together(name, one[name], other[name])
    return both | _object(one, other)


def _require_apart(one: Object, other: Object) -> None:
    """CannotMerge: a keyword of one schema would change the meaning of one of the other."""
    if any(name in one and name in other and one[name] != other[name] for name in _WITH_SIBLINGS):
        raise CannotMerge
    if ("$ref" in one and has_constraints(other)) or ("$ref" in other and has_constraints(one)):
        raise CannotMerge
    for group in _GROUPS:
        of_one, of_other = group & one.keys(), group & other.keys()
        if of_one and of_other and (of_one | of_other) & _WITH_SIBLINGS:
            raise CannotMerge


def _with_enum(schema: Object) -> Object:
    """The schema with its `const` written as an `enum`."""
    if "const" not in schema:
        return schema
    values = [schema["const"]]
    rest = {name: value for name, value in schema.items() if name != "const"}
    return rest | {"enum": _common(values, schema["enum"]) if "enum" in schema else values}


def _together(name: str, one: Any, other: Any) -> Any:
    combine = _MERGES.get(name)
    if combine is None or isinstance(one, bool) is not isinstance(other, bool):
        raise CannotMerge
    return combine(one, other)


def _types(one: str | list[str], other: str | list[str]) -> str | list[str]:
    """The types of both. An integer is a number."""
    first, second = _list_types(one), _list_types(other)
    common = [each for each in first if each in second or (each == "integer" and "number" in second)]
    common += [each for each in second if each == "integer" and "number" in first and each not in common]
    return common[0] if len(common) == 1 else common


def _list_types(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _both(one: Any, other: Any) -> Object:
    return {"allOf": [one, other]}


def _common(one: list[Any], other: list[Any]) -> list[Any]:
    """The values of both lists."""
    others = set(map(write_json, other))
    return [value for value in one if write_json(value) in others]


def write_json(value: Any) -> bytes:
    """The JSON of a value, which unlike Python's `==` tells 1 and true apart. 1 and 1.0 are the same number."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_MAX
    return canonical(int(value) if is_whole else value)


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _common,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    **dict.fromkeys("minimum exclusiveMinimum minLength minItems minProperties".split(), max),
    **dict.fromkeys("maximum exclusiveMaximum maxLength maxItems maxProperties".split(), min),
    "uniqueItems": lambda one, other: one or other,
    **dict.fromkeys(["items", "propertyNames"], _both),
}
"""The keywords of which two values can be made one."""


def _object(one: Object, other: Object) -> Object:
    """`properties` and `additionalProperties` of both schemas: a name that one of them does not describe is subject to
    its `additionalProperties`."""
    first, second = one.get("properties", {}), other.get("properties", {})
    others = one.get("additionalProperties", True), other.get("additionalProperties", True)
    found: Object = {}
    if first or second:
        names = dict.fromkeys([*first, *second])
        found["properties"] = {name: _all([first.get(name, others[0]), second.get(name, others[1])]) for name in names}
    if "additionalProperties" in one or "additionalProperties" in other:
        found["additionalProperties"] = _all(others)
    return found


def _all(schemas: Iterable[Any]) -> Any:
    """The schema of the values that match all of them."""
    left = [each for each in schemas if each is not True]
    if False in left:
        return False
    return left[0] if len(left) == 1 else {"allOf": left} if left else True


def has_constraints(schema: Object) -> bool:
    """Whether a schema has keywords that constrain values."""
    return any(name in CONSTRAINTS for name in schema)
