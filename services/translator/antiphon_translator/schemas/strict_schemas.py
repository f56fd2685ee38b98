"""Checks the subset of JSON schema that `strict: true` requires: schemas that a grammar enforces completely.

It is OpenAI's subset: an object at the root, every property required, no additional properties. Keywords that grammars
(xgrammar, which TensorRT-LLM, vLLM and SGLang share) would silently ignore are rejected as well, such as `multipleOf`,
or other keywords beside an `enum`. The tables list the keywords that a schema may have, `_RULES` the further rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from antiphon_core.limits import SCHEMA_STRICT_DEPTH_MAX
from antiphon_translator.schemas.contradictions import KINDS, Flaw, types_of
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline, Place

_NUMBERS = frozenset("minimum maximum exclusiveMinimum exclusiveMaximum".split())
BY_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset("properties required additionalProperties".split()),
    "array": frozenset("items minItems maxItems".split()),
    "string": frozenset("pattern format minLength maxLength".split()),
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "boolean": frozenset(),
    "null": frozenset(),
}
"""The keywords that a schema of each type may have."""

DECISIVE: Mapping[str, frozenset[str]] = {
    "$ref": frozenset(),
    "const": frozenset(["type"]),
    "enum": frozenset(["type"]),
    "anyOf": frozenset(),
}
"""The keywords that decide alone, each with those that may stand beside it: a grammar uses the first of them that a
schema has, and ignores the others."""

REMARKS = frozenset(
    "title description default examples deprecated readOnly writeOnly $comment $schema $id $defs definitions".split()
)
"""The keywords that constrain no value."""

FORMATS = frozenset(
    "date-time time date duration email hostname ipv4 ipv6 uuid uri uri-reference uri-template json-pointer "
    "relative-json-pointer".split()
)
"""The formats that grammars support."""

INSTEAD: Mapping[str, str] = {
    "oneOf": "use 'anyOf'",
    "allOf": "write its schemas as one",
    "nullable": "use a type like ['string', 'null']",
    "patternProperties": "name the properties",
    "prefixItems": "use an object with named properties",
}
"""The advice for each keyword that has a replacement."""


def require(outline: Outline) -> None:
    """InvalidSchema: the schema is not in the subset. `outline` has passed `schemas.require_guidable`."""
    for place in outline.places.values():
        for rule in _RULES:
            for path, message in rule(place):
                raise InvalidSchema((*place.path, *path), message)


def _decisive(place: Place) -> str | None:
    return next((keyword for keyword in DECISIVE if keyword in place.keywords), None)


def _root(place: Place) -> Iterator[Flaw]:
    if place.path:
        return
    if types_of(place) != ["object"]:
        yield (), f"the schema must have type 'object', but has type {place.keywords.get('type')!r}."
    if "anyOf" in place.keywords:
        yield ("anyOf",), "the schema itself must be an object, not one of several."


def _is_written_out(place: Place) -> Iterator[Flaw]:
    if isinstance(place.schema, bool) and place.keyword != "additionalProperties":
        yield (), f"a schema must be an object, not {str(place.schema).lower()}."


def _keywords(place: Place) -> Iterator[Flaw]:
    decisive = _decisive(place)
    if decisive is not None:
        known = DECISIVE[decisive] | {decisive}
    else:
        known = frozenset(["type"]).union(*(BY_TYPE[each] for each in types_of(place)))
    for keyword in place.keywords:
        if keyword not in known and keyword not in REMARKS and not keyword.startswith("x-"):
            beside = f" beside {decisive!r}" if decisive is not None else ""
            instead = INSTEAD.get(keyword, "leave it out")
            yield (), f"{keyword!r} is not permitted{beside}; {instead}, or set 'strict' to false."


def _says_something(place: Place) -> Iterator[Flaw]:
    if isinstance(place.schema, dict) and _decisive(place) is None and not types_of(place):
        yield (), "the schema must have a 'type' key."


def _object(place: Place) -> Iterator[Flaw]:
    if "object" not in types_of(place) or _decisive(place) is not None:
        return
    if place.keywords.get("additionalProperties") is not False:
        yield (), "'additionalProperties' is required to be supplied and to be false."
    properties, required = place.get("properties", dict), set(place.get("required", list))
    missing = next((name for name in properties if name not in required), None)
    if missing is not None:
        yield (
            (),
            (
                "'required' is required to be supplied and to be an array including every key in properties. "
                f"Missing {missing!r}."
            ),
        )
    for name in place.get("required", list):
        if name not in properties:
            yield ("required",), f"{name!r} is not in 'properties'."


def _array(place: Place) -> Iterator[Flaw]:
    if "array" in types_of(place) and _decisive(place) is None and "items" not in place.keywords:
        yield (), "the array schema must have 'items'."


def _string(place: Place) -> Iterator[Flaw]:
    format = place.get("format", str)  # noqa: A001
    if format and format not in FORMATS:
        yield ("format",), f"{format!r} is not supported; there is {', '.join(sorted(FORMATS))}."
    if "minLength" in place.keywords or "maxLength" in place.keywords:
        for other in ("pattern", "format"):
            if other in place.keywords:
                yield (), f"{other!r} is not permitted beside 'minLength' and 'maxLength'; write the length into it."


def _bounds(place: Place) -> Iterator[Flaw]:
    if "integer" in types_of(place):
        for keyword in _NUMBERS:
            bound = place.keywords.get(keyword, 0)
            if bound != int(bound):
                yield (keyword,), "the bound of an integer must be an integer."


def _values(place: Place) -> Iterator[Flaw]:
    given = place.get("enum", list) + ([place.keywords["const"]] if "const" in place.keywords else [])
    types = types_of(place)
    for value in given:
        if types and not any(KINDS[each](value) for each in types):
            yield (), f"the value {value!r} is not of type {place.keywords['type']!r}."


def _reference(place: Place) -> Iterator[Flaw]:
    reference = place.get("$ref", str)
    if reference and not re.fullmatch(r"#(/[^~%/]+)*", reference):
        yield ("$ref",), f"{reference!r} must be '#', or a plain path like '#/$defs/name'."


def _depth(place: Place) -> Iterator[Flaw]:
    levels = place.level + 1
    if levels > SCHEMA_STRICT_DEPTH_MAX and any(each in place.keywords for each in ("properties", "items")):
        yield (), f"{levels} levels of nesting exceed the limit of {SCHEMA_STRICT_DEPTH_MAX}."


_RULES: tuple[Callable[[Place], Iterator[Flaw]], ...] = (
    _is_written_out,
    _root,
    _keywords,
    _says_something,
    _object,
    _array,
    _string,
    _bounds,
    _values,
    _reference,
    _depth,
)
"""The rules for each place of a schema; the error has the first flaw."""
