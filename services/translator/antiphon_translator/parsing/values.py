"""Arguments that a model writes without quotes, as JSON: the tool's schema says what they are.

A text becomes what the schema allows and it exactly is; otherwise it stays the string that it was. Numbers keep their
spelling: nobody turns 1e20 or a long integer into something else.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any

from antiphon_core.jsons import Object

STRING = frozenset({"string"})
ANYTHING: frozenset[str] = frozenset()

_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def types_of(schema: Object | None, key: str) -> frozenset[str]:
    """The JSON types that a parameter may have; empty when the schema does not say."""
    properties = (schema or {}).get("properties")
    return _types(properties.get(key)) if isinstance(properties, Mapping) else ANYTHING


def names_of(schema: Object | None) -> Iterable[str]:
    """The parameters that a tool has, as far as its schema says."""
    properties = (schema or {}).get("properties")
    return properties.keys() if isinstance(properties, Mapping) else ()


def as_json(text: str, types: frozenset[str]) -> str:
    """The JSON of a value that was written as `text`."""
    word = text.strip()
    if types == STRING:
        return string(text)
    kind = _kind_of(word)
    if kind is not None and kind != "string" and _allows(types, kind):
        return word
    if kind == "string" and types and "string" not in types:
        return word
    return _python(word, types) or string(text)


def string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def string_part(text: str) -> str:
    """A piece of a string, as it stands between the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, Mapping):
        return ANYTHING
    named = schema.get("type", ())
    types = {named} if isinstance(named, str) else set(named)
    for union in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(union) or ():
            types |= _types(each)
    if not types and "enum" in schema:
        types = {_KINDS[type(value)] for value in schema["enum"]}
    if not types and "$ref" in schema:
        types = {"object"}
    return frozenset(types)


def _kind_of(word: str) -> str | None:
    """What a text is as JSON; None when it is none."""
    try:
        value = json.loads(word, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return _KINDS[type(value)]


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _allows(types: frozenset[str], kind: str) -> bool:
    return not types or kind in types or (kind == "integer" and "number" in types)


def _python(word: str, types: frozenset[str]) -> str | None:
    """The JSON of a Python literal where the schema asks for more than a string; models write those, too."""
    kind = _kind_of(_PYTHON_WORDS.get(word, ""))
    if kind is not None and kind in types:
        return _PYTHON_WORDS[word]
    if word[:1] in ("[", "{") and types & {"array", "object"}:
        try:
            return json.dumps(ast.literal_eval(word), ensure_ascii=False)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
    return None
