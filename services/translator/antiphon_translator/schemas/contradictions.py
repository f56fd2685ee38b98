"""Finds schemas that no value matches, before any engine sees them.

A grammar of such a schema has a place where nothing can follow: engines answer with an error, or end. Two kinds exist:

    within one schema     bounds in the wrong order, an empty `enum`, a `const` of another type: the table _RULES
    between schemas       a required property that nothing matches, or a value that needs another one without end

`false`, and `not` with a schema that everything matches, say "never" on purpose. They are no contradiction by
themselves: an optional property may be `false`. Schemas below `not` and `if` are conditions, which may fail.

The rules find what can be decided from keywords alone. They never reject a schema that a value matches, except where
keywords contradict each other for the type that they are about, as in `{"minimum": 5, "maximum": 1}` without a type.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, inf
from typing import Any, TypeGuard

from antiphon_core.jsons import Object
from antiphon_translator.schemas.merging import write_json
from antiphon_translator.schemas.schema_outline import REFERENCES, InvalidSchema, Outline, Path, Place

KINDS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
"""Whether a value is of a type of JSON schema."""

_SIZES: Mapping[str, tuple[str, str]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBERS = ("number", "integer")
_LIMITS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
CONDITIONS = ("not", "if")
"""The keywords whose schemas need not match anything."""

Flaw = tuple[Path, str]
"""The path from a place to the flaw, and its description."""


def require(outline: Outline) -> None:
    """InvalidSchema: no value matches the schema, or one of the schemas in it."""
    judged = list(_unconditional(outline.places.values()))
    for place in judged:
        for rule in _RULES:
            for path, message in rule(place):
                raise InvalidSchema((*place.path, *path), message)
    _require_values(outline, judged)


def contradicts_itself(schema: Object) -> bool:
    """Whether keywords of a schema contradict each other. Schemas in it do not matter."""
    return any(True for rule in _RULES for _ in rule(Place((), schema)))


def is_never(schema: Any) -> bool:
    """Whether a schema says that nothing matches it: `false`, or `not` with a schema that everything matches."""
    return schema is False or (isinstance(schema, dict) and (schema.get("not") is True or schema.get("not") == {}))


def types_of(place: Place) -> Sequence[str]:
    """The types that a schema names."""
    given = place.keywords.get("type", [])
    return [given] if isinstance(given, str) else given


def _unconditional(places: Iterable[Place]) -> Iterator[Place]:
    """The places without those within conditions."""
    condition: Path | None = None
    for place in places:
        if condition is not None and place.path[: len(condition)] == condition:
            continue
        if place.keyword in CONDITIONS:
            condition = place.path
        else:
            yield place


# ---- Within one schema ----


def _is_about(place: Place, *kinds: str) -> bool:
    """Whether keywords about these types matter: the schema names one of them, or none at all."""
    types = types_of(place)
    return not types or any(each in types for each in kinds)


def _sizes(place: Place) -> Iterator[Flaw]:
    for kind, (least, most) in _SIZES.items():
        if _is_about(place, kind) and _number(place, least, 0) > _number(place, most, inf):
            yield (least,), f"{least!r} is more than {most!r}, so nothing can match. Swap the two, or leave one out."


def _numbers(place: Place) -> Iterator[Flaw]:
    if not _is_about(place, *_NUMBERS):
        return
    lows, highs = _bounds(place, "minimum", "exclusiveMinimum"), _bounds(place, "maximum", "exclusiveMaximum")
    for low, is_low_excluded, low_name in lows:
        for high, is_high_excluded, high_name in highs:
            if low > high or (low == high and (is_low_excluded or is_high_excluded)):
                message = f"{low_name!r} and {high_name!r} leave no number, so nothing can match. Widen the bounds."
                yield (low_name,), message
    step = _step(place)
    if lows and highs and step > 0 and not _has_multiple(lows, highs, step):
        what = "integer" if "multipleOf" not in place.keywords else "multiple"
        low_name, high_name = lows[0][2], highs[0][2]
        message = f"there is no {what} between {low_name!r} and {high_name!r}, so nothing can match. Widen the bounds."
        yield (low_name,), message


_Bound = tuple[float, bool, str]


def _bounds(place: Place, name: str, excluded_name: str) -> list[_Bound]:
    """The bounds on one side, each with whether it is excluded, and its keyword. In draft 4 the second keyword is
    `true` and excludes the first."""
    excluded = place.keywords.get(excluded_name)
    bounds = [(_number(place, name, inf), excluded is True, name)] if _is_number(place.keywords.get(name)) else []
    return [*bounds, (_number(place, excluded_name, inf), True, excluded_name)] if _is_number(excluded) else bounds


def _step(place: Place) -> Fraction:
    """The distance of the numbers that a schema leaves; 0 if all are left."""
    step = Fraction(str(place.keywords["multipleOf"])) if _is_number(place.keywords.get("multipleOf")) else Fraction(0)
    is_whole = "integer" in types_of(place) and "number" not in types_of(place)
    if not is_whole:
        return step
    return Fraction(step.numerator) if step else Fraction(1)


def _has_multiple(lows: Sequence[_Bound], highs: Sequence[_Bound], step: Fraction) -> bool:
    least = max(floor(at / step) + 1 if is_out else ceil(at / step) for at, is_out in _exact(lows))
    most = min(ceil(at / step) - 1 if is_out else floor(at / step) for at, is_out in _exact(highs))
    return least <= most


def _exact(bounds: Sequence[_Bound]) -> Iterator[tuple[Fraction, bool]]:
    return ((Fraction(str(at)), is_out) for at, is_out, _ in bounds)


def _types(place: Place) -> Iterator[Flaw]:
    if place.keywords.get("type") == []:
        yield ("type",), "the schemas that apply here, such as those of 'allOf', have no type in common."


def _values(place: Place) -> Iterator[Flaw]:
    keywords = place.keywords
    if keywords.get("enum") == []:
        yield ("enum",), "'enum' has no values, so nothing can match. Name at least one, or leave out 'enum'."
    if (
        "const" in keywords
        and "enum" in keywords
        and write_json(keywords["const"]) not in map(write_json, keywords["enum"])
    ):
        yield ("const",), "'const' is not one of the values of 'enum', so nothing can match. Leave one of them out."
    keyword = "const" if "const" in keywords else "enum"
    values = [keywords["const"]] if keyword == "const" else place.get("enum", list)
    if values and not any(is_permitted(place, value) for value in values):
        message = f"{keyword!r} has no value that the type and the bounds beside it permit, so nothing can match."
        yield (keyword,), f"{message} Change one of them."


def is_permitted(place: Place, value: Any) -> bool:
    """Whether a value has a type that a schema names, and is within its bounds."""
    types = types_of(place)
    if types and not any(KINDS[each](value) for each in types):
        return False
    if _is_number(value):
        return all(
            holds(value, place.keywords[keyword])
            for keyword, holds in _LIMITS.items()
            if _is_number(place.keywords.get(keyword))
        )
    bounds = next((_SIZES[kind] for kind in _SIZES if KINDS[kind](value)), None)
    return bounds is None or _number(place, bounds[0], 0) <= len(value) <= _number(place, bounds[1], inf)


def _names(place: Place) -> Iterator[Flaw]:
    if not _is_about(place, "object"):
        return
    required = {each for each in place.get("required", list) if isinstance(each, str)}
    if len(required) > _number(place, "maxProperties", inf):
        yield (
            ("maxProperties",),
            f"{len(required)} properties are required, so nothing can match. Permit more, or require less.",
        )
    if place.keywords.get("additionalProperties") is not False or place.get("patternProperties", dict):
        return
    properties = place.get("properties", dict)
    for name in place.get("required", list):
        if name not in properties:
            message = f"{name!r} is required, but neither in 'properties' nor permitted by 'additionalProperties'."
            yield ("required",), f"{message} Describe it in 'properties', or do not require it."
    if _number(place, "minProperties", 0) > len(properties):
        message = (
            f"only {len(properties)} properties are permitted, so nothing can match. Permit more, or require less."
        )
        yield ("minProperties",), message


def _number(place: Place, keyword: str, default: float) -> float:
    value = place.keywords.get(keyword)
    return value if _is_number(value) else default


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_RULES: tuple[Callable[[Place], Iterator[Flaw]], ...] = (_sizes, _numbers, _types, _values, _names)
"""The rules for each schema by itself; the error has the first flaw."""


# ---- Between schemas ----


def _require_values(outline: Outline, judged: Sequence[Place]) -> None:
    """InvalidSchema: a schema needs values of other schemas, and has none because one of these has none."""
    matched = _match_places(outline)
    lost = [place for place in judged if place.path not in matched and not is_never(place.schema)]
    if is_never(outline.schema):
        raise InvalidSchema((), "nothing can match this schema. Describe the values that are wanted.")
    if not lost:
        return
    for place in lost:
        for group in _needs(outline, place):
            if all(is_never(outline.places[path].schema) for path in group):
                message = f"nothing can match this schema, but the one at {place.path!r} needs a value of it."
                raise InvalidSchema(group[0], f"{message} Do not require the value, or describe it.")
    message = "no finite value can match this schema: each value needs another one within. Make a reference optional."
    raise InvalidSchema(lost[0].path, message)


def _match_places(outline: Outline) -> set[Path]:
    """The places that some value matches, as far as their needs say: the least set in which each place has its needs
    met. Takes time in proportion to the schema."""
    unmet: dict[Path, int] = {}
    users: defaultdict[Path, list[tuple[Path, list[bool]]]] = defaultdict(list)
    met: list[Path] = []
    for place in outline.places.values():
        groups = _needs(outline, place)
        unmet[place.path] = len(groups)
        for group in groups:
            is_met = [False]
            for path in group:
                users[path].append((place.path, is_met))
        if not groups and not is_never(place.schema):
            met.append(place.path)
    found = set(met)
    while met:
        for user, is_met in users.pop(met.pop(), ()):
            unmet[user] -= not is_met[0]
            is_met[0] = True
            if not unmet[user] and user not in found and not is_never(outline.places[user].schema):
                found.add(user)
                met.append(user)
    return found


def _needs(outline: Outline, place: Place) -> list[list[Path]]:
    """The schemas that a value of a schema needs values of: of each group, one at least."""
    needs: list[list[Path]] = []
    for keyword in REFERENCES:
        target = outline.target(place.get(keyword, str))
        if target is not None and keyword in place.keywords:
            needs.append([target.path])
    below = place.path
    needs += [[(*below, "allOf", str(index))] for index in range(len(place.get("allOf", list)))]
    for keyword in ("anyOf", "oneOf"):
        if place.get(keyword, list):
            needs.append([(*below, keyword, str(index)) for index in range(len(place.get(keyword, list)))])
    needs += [[(*below, *path)] for path in (*_needed_properties(place), *_needed_elements(place))]
    return [group for group in needs if all(path in outline.places for path in group)]


def _needed_properties(place: Place) -> Iterator[Path]:
    properties = place.get("properties", dict)
    for name in dict.fromkeys(place.get("required", list)):
        if name in properties and _is_needed(place, "object", properties[name]):
            yield "properties", name


def _needed_elements(place: Place) -> Iterator[Path]:
    least, prefix = _number(place, "minItems", 0), place.get("prefixItems", list)
    for index in range(int(min(least, len(prefix)))):
        if _is_needed(place, "array", prefix[index]):
            yield "prefixItems", str(index)
    if least > len(prefix) and _is_needed(place, "array", place.keywords.get("items")):
        yield ("items",)
    if _number(place, "minContains", 1) >= 1 and _is_needed(place, "array", place.keywords.get("contains")):
        yield ("contains",)


def _is_needed(place: Place, kind: str, part: Any) -> bool:
    """Whether each value of a schema has a part that matches `part`, as the values of one type have. Without a type,
    values of other types match as well. A schema that requires a part which nothing matches is still a mistake."""
    types = types_of(place)
    return types == [kind] or (not types and is_never(part))
