"""Validates the JSON schemas of clients, and checks whether they can guide an answer.

    outline = schemas.read(schema)          # any schema, such as the parameters of a function
    outline = schemas.read_guidable(schema) # a schema of which a grammar can be made
    validator = schemas.compiled(outline)   # the validator of answers

Rule 1: nothing is ever fetched. By default, the library loads the documents in `$ref` and `$schema` from the network
and the disk. So each call into it gets a retriever that fails, `$schema` is replaced by one of DRAFTS, and references
to other documents are rejected first.

Rule 2: no check takes long. The library holds the GIL while it works, so a slow schema would block all requests of the
process; hence the limits in antiphon_core.limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import jsonschema_rs
from jsonschema_rs import ReferencingError, RegexOptions, Registry, ValidationError, ValidationErrorKind, Validator

from antiphon_core import limits
from antiphon_core.jsons import Object, dumps
from antiphon_translator.schemas import normal_form, pattern_cost
from antiphon_translator.schemas.schema_outline import REFERENCES, InvalidSchema, Outline, Path, Place

_NEWEST = "https://json-schema.org/draft/2020-12/schema"
DRAFTS: Mapping[str, str] = {
    "json-schema.org/draft/2020-12/schema": _NEWEST,
    "json-schema.org/draft/2019-09/schema": "https://json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema": "http://json-schema.org/draft-07/schema#",
    "json-schema.org/draft-06/schema": "http://json-schema.org/draft-06/schema#",
    "json-schema.org/draft-04/schema": "http://json-schema.org/draft-04/schema#",
}
"""The drafts by their `$schema` without scheme and trailing `#`. Any other value is read as the newest draft."""
_TYPES = "array, boolean, integer, null, number, object, string"


def _fail_to_retrieve(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not retrieved")


_NO_DOCUMENTS = Registry([], retriever=_fail_to_retrieve)
# This engine of regular expressions takes linear time. It supports neither lookaround nor backreferences; nor do
# grammars.
_LINEAR = RegexOptions(size_limit=limits.SCHEMA_PATTERN_BYTES_MAX, dfa_size_limit=limits.SCHEMA_PATTERN_BYTES_MAX)


def read(schema: Object) -> Outline:
    """The outline of a schema. InvalidSchema: it is too long, nested too deep, no JSON schema, refers to other
    documents, or matches no value."""
    outline = _outline_of(schema)
    require_schema(outline)
    return outline


def read_guidable(schema: Object) -> Outline:
    """The outline of a schema that can guide an answer. InvalidSchema as in `read` and `require_guidable`."""
    outline = _outline_of(schema)
    require_lengths(outline)
    require_schema(outline)
    require_guidable(outline)
    return outline


def _outline_of(schema: Object) -> Outline:
    require_size(_written_bytes(schema))
    return Outline(schema, nodes_max=limits.SCHEMAS_NODES_MAX)


def require_schema(outline: Outline) -> None:
    """InvalidSchema: this is no JSON schema, it refers to other documents, or no value matches it."""
    _require_metaschema(outline.schema | {"$schema": _draft(outline.schema)})
    for place in outline.places.values():
        for keyword in REFERENCES:
            if keyword in place.keywords and not place.get(keyword, str).startswith("#"):
                raise InvalidSchema(
                    (*place.path, keyword),
                    f"{keyword!r} must refer to a place in the schema itself, like '#/$defs/name'. Other documents are "
                    "not retrieved.",
                )
    normal_form.require_possible(outline)


def require_lengths(outline: Outline) -> None:
    """InvalidSchema: the schema has more properties or enum values, or longer ones, than a schema may have that guides
    an answer. Call it first: the other checks take 14 us for each property, and 1.4 us for each value."""
    places = outline.places.values()
    properties = sum(len(place.get("properties", dict)) for place in places)
    values = sum(len(place.get("enum", list)) for place in places)
    chars = sum(len(word) for place in places for word in _words(place) if isinstance(word, str))
    _require_at_most(limits.SCHEMA_PROPERTIES_ITEMS_MAX, properties, "properties")
    _require_at_most(limits.SCHEMA_ENUM_ITEMS_MAX, values, "enum values")
    _require_at_most(limits.SCHEMA_WORDS_CHARS_MAX, chars, "characters in names, enum values and constants")


def require_guidable(outline: Outline) -> None:
    """InvalidSchema: no grammar can be made of the schema, or only one that is too large. Grammars follow the newest
    draft, whatever `$schema` says. `outline` has passed `require_lengths` and `require_schema`."""
    _require_metaschema(outline.schema | {"$schema": _NEWEST})
    for place in outline.places.values():
        _require_targets(outline, place)
    looping = outline.loop()
    if looping is not None:
        raise InvalidSchema(looping.path, "this schema only refers back to itself, so it describes no value.")
    _require_at_most(
        limits.SCHEMA_UNEVALUATED_NODES_MAX,
        outline.unevaluated_nodes,
        "schemas beside 'unevaluatedProperties' and 'unevaluatedItems', counted at each reference to them",
    )
    _require_patterns(outline)


def compile_validator(outline: Outline) -> Validator:
    """The validator of a schema that has passed `require_guidable`. InvalidSchema: a pattern is no regular expression,
    or is too large."""
    try:
        newest = outline.schema | {"$schema": _NEWEST}
        return jsonschema_rs.validator_for(newest, retriever=_fail_to_retrieve, pattern_options=_LINEAR)
    except (ValueError, ReferencingError) as error:
        raise _invalid_schema(error) from error


def _written_bytes(schema: Object) -> int:
    try:
        return len(dumps(schema))
    except TypeError as error:  # of orjson: nested too deep, a number too large, or a lone surrogate
        raise InvalidSchema((), f"this cannot be written as JSON: {error}.") from error


def require_size(size: int) -> None:
    """InvalidSchema: a schema of `size` bytes is too long."""
    if size > limits.SCHEMA_BYTES_MAX:
        raise InvalidSchema((), f"the schema is {size} bytes long; at most {limits.SCHEMA_BYTES_MAX} are possible.")


def _require_metaschema(schema: Object) -> None:
    try:
        jsonschema_rs.meta.validate(schema, registry=_NO_DOCUMENTS)
    except (ValueError, ReferencingError) as error:
        raise _invalid_schema(error) from error


def _draft(schema: Object) -> str:
    """The draft of a schema, in the library's spelling."""
    given = schema.get("$schema")
    named = re.sub(r"^https?://|#$", "", given) if isinstance(given, str) else ""
    return DRAFTS.get(named, _NEWEST)


def _invalid_schema(error: Exception) -> InvalidSchema:
    """Translates an error of the library."""
    if not isinstance(error, ValidationError):
        return InvalidSchema((), f"{error}.")
    path = tuple(map(str, error.instance_path))
    if isinstance(error.kind, ValidationErrorKind.Format):
        return InvalidSchema(path, "this is not a regular expression, or takes too much memory.")
    if list(error.schema_path)[-2:] == ["type", "anyOf"]:
        # The library says only that the value matches no alternative of the metaschema.
        return InvalidSchema(path, f"'type' must be one of {_TYPES}, or a list of some, but is {error.instance!r}.")
    return InvalidSchema(path, f"{error.message}.")


def _require_targets(outline: Outline, place: Place) -> None:
    """InvalidSchema: a reference has no target, or a nested `$id` would change the meaning of `#`."""
    for keyword in REFERENCES:
        reference = place.get(keyword, str)
        if reference and outline.target(reference) is None:
            raise InvalidSchema((*place.path, keyword), f"there is no schema at {reference!r}.")
    if place is not outline.root and "$id" in place.keywords:
        raise InvalidSchema((*place.path, "$id"), "'$id' is not permitted within a schema.")


def _words(place: Place) -> Iterator[Any]:
    for keyword in ("properties", "$defs", "definitions"):
        yield from place.get(keyword, dict)
    yield from place.get("enum", list)
    yield place.get("const", str)


def _require_at_most(limit: int, count: int, what: str) -> None:
    if count > limit:
        raise InvalidSchema((), f"the schema has {count} {what}; at most {limit} are possible.")


# Syntax of regular expressions that grammar engines do not support: they fail on it, or misread it.
_IN_PATTERNS = re.compile(
    r"(?P<known>\\[^pPbBkK1-9]|\[(?:\\[^pP]|[^\]\\])*\])"
    r"|(?P<lookaround>\(\?<?[=!])|(?P<escape>\\.)|(?P<flags>\(\?[^:<])",
    re.DOTALL,
)
_BEYOND_GRAMMARS: Mapping[str, str] = {
    "lookaround": "lookahead and lookbehind are not supported",
    "escape": "backreferences, word boundaries and Unicode classes are not supported",
    "flags": "groups with flags are not supported",
}


def _require_patterns(outline: Outline) -> None:
    patterns = {pattern: path for place in outline.places.values() for path, pattern in _patterns(place)}
    for pattern, path in patterns.items():
        if len(pattern) > limits.SCHEMA_PATTERN_CHARS_MAX:
            message = f"a pattern can have at most {limits.SCHEMA_PATTERN_CHARS_MAX} characters."
            raise InvalidSchema(path, message)
        for found in _IN_PATTERNS.finditer(pattern):
            flaw = _BEYOND_GRAMMARS.get(found.lastgroup or "")
            if flaw is not None:
                raise InvalidSchema(path, f"{found.group()!r}: {flaw}.")
    _require_at_most(limits.SCHEMA_PATTERNS_ITEMS_MAX, len(patterns), "different patterns")
    _require_cheap(patterns)


def _require_cheap(patterns: Mapping[str, Path]) -> None:
    cost, most = 0, limits.SCHEMAS_PATTERN_US_MAX
    for pattern, path in patterns.items():
        cost += pattern_cost.of(pattern)
        if cost > most:
            message = f"with this one, the patterns would take {cost} us to compile; at most {most} are possible."
            raise InvalidSchema(path, message)


def _patterns(place: Place) -> Iterator[tuple[Path, str]]:
    if "pattern" in place.keywords:
        yield (*place.path, "pattern"), place.get("pattern", str)
    for pattern in place.get("patternProperties", dict):
        yield (*place.path, "patternProperties", pattern), pattern
