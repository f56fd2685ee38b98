"""Converts arguments that a model writes without quotes to JSON, by the types in the tool's schema.

A text becomes a number, a boolean, an object or the like only if it is JSON of a type that the schema allows; otherwise
it becomes a string. Numbers keep their spelling: 1e20 or a long integer is never rewritten. Only where the schema
allows an integer and no other number, a whole number such as 7.0 or 1e3 is written as 7 or 1000: JSON Schema counts it
as an integer, and the parsers of many tools do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from antiphon_core.jsons import Object
from antiphon_translator.parsing import python_literals, surrogate_escapes

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
_UNIONS = ("anyOf", "oneOf", "allOf")
_ELEMENT = "item"  # the tag of an array's elements
_WRAPPERS = ("arguments", "parameters", "params", "args", "input")
_EXPONENT_MAX = 308
"""The exponent of the largest whole number that is written out; a double has no larger one."""
_FLOAT = re.compile(r"\d(?:\.\d|e)")
"""A part of every float as the encoder writes it, and of some texts."""
_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each text
_NOT_JSON = ("NaN", "Infinity", "nan", "inf")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def member(schema: Object, key: str) -> Object:
    """The schema of a member of an object, or with the key `item` of the elements of an array; empty if there is
    none."""
    for each in _alternatives(schema):
        properties = each.get("properties")
        if isinstance(properties, Mapping) and isinstance(properties.get(key), Mapping):
            return dict(properties[key])
    items = [each["items"] for each in _alternatives(schema) if isinstance(each.get("items"), Mapping)]
    return dict(items[0]) if items and key == _ELEMENT else {}


def element(schema: Object) -> Object:
    """The schema of the elements of an array; empty if there is none."""
    return member(schema, _ELEMENT)


def types_of(schema: Object) -> frozenset[str]:
    """The JSON types that a value may have; empty if the schema names none."""
    return _types(schema)


def names_of(schema: Object) -> Iterable[str]:
    """The names of the parameters in a tool's schema."""
    properties = schema.get("properties")
    return properties.keys() if isinstance(properties, Mapping) else ()


def is_string(types: frozenset[str], string_mark: str | None) -> bool:
    """Whether a value is a string, whatever its text is, and can be streamed. `string_mark` is the mark in the tag of
    the value: "true" for a string, "false" for JSON, None without a mark."""
    if string_mark is None:
        return types == STRING
    return string_mark == "true" and (not types or "string" in types)


def as_json(text: str, types: frozenset[str], *, is_json: bool = False) -> str:
    """The JSON of a value that was written as `text`. `is_json`: the model says that its text is JSON."""
    word = text.strip()
    kind = _kind_of(word)
    if is_json and kind == "string":
        return word
    if types == STRING:
        return string(text)
    if kind == "number" and (digits := _whole(word, types)) is not None:
        return digits
    if kind is not None and kind != "string" and _allows(types, kind):
        return word
    if kind == "string" and types and "string" not in types:
        return word
    return _python(word, types) or string(text)


def word_as_json(word: str, types: frozenset[str]) -> str | None:
    """The JSON of a word without quotes in a notation whose strings have quotes: a number, a word of JSON or Python, or
    else a string. A number where only a string may be is a string. None: the word is a number that JSON does not
    have."""
    spelt = _PYTHON_WORDS.get(word, word)
    kind = _kind_of(spelt)
    if kind is None:
        return None if word.lstrip("-") in _NOT_JSON and "string" not in types else string(word)
    if kind == "number" and (digits := _whole(spelt, types)) is not None:
        return digits
    return string(word) if types == STRING and kind != "null" else spelt


def with_integers(text: str, schema: Object) -> str:
    """A JSON text of Python's own encoder, in which whole numbers are written as integers where the schema allows an
    integer and no other number."""
    if not schema or _FLOAT.search(text) is None:
        return text
    return _encode(_as_integers(json.loads(text), schema))


def text_of_literal(written: str) -> str | None:
    """The text of a string with its quotes, as JSON or Python writes it; None if it is neither. A line break in it is
    a part of the text."""
    source = surrogate_escapes.replace_escapes(written)
    try:
        text = json.loads(source, strict=False)
    except (ValueError, RecursionError):
        text = python_literals.value_of(written)
    return text if isinstance(text, str) else None


def may_be_wrapper(schema: Object, key: str) -> bool:
    """Whether the value of a key may be the object of all arguments: the schema has other keys, and not this one."""
    names = names_of(schema)
    return key in _WRAPPERS and bool(names) and key not in names


def is_wrapper(schema: Object, text: str) -> bool:
    """Whether a text is a JSON object all of whose keys are parameters of the schema."""
    if _kind_of(text.strip()) != "object":
        return False
    given = json.loads(text)
    return bool(given) and given.keys() <= set(names_of(schema))


def collect(members: Sequence[tuple[str, str]], schema: Object) -> str:
    """The JSON of an object with these members, whose values are JSON; of an array if all members are named `item` and
    the schema allows one."""
    is_array = all(name == _ELEMENT for name, _ in members) and "array" in (_types(schema) or {"array"})
    if is_array:
        return f"[{', '.join(text for _, text in members)}]"
    return f"{{{', '.join(f'{string(name)}: {text}' for name, text in members)}}}"


def string(text: str) -> str:
    return _encode(text)


def string_part(text: str) -> str:
    """A piece of a JSON string, escaped, without the quotes."""
    return _encode(text)[1:-1]


def _alternatives(schema: Object) -> Iterator[Mapping[str, Any]]:
    """A schema, and the schemas of its unions."""
    yield schema
    for union in _UNIONS:
        for each in schema.get(union) or ():
            if isinstance(each, Mapping):
                yield from _alternatives(dict(each))


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, Mapping):
        return ANYTHING
    named = schema.get("type", ())
    types = {named} if isinstance(named, str) else set(named)
    for union in _UNIONS:
        for each in schema.get(union) or ():
            types |= _types(each)
    if not types and "enum" in schema:
        types = {_KINDS[type(value)] for value in schema["enum"]}
    if not types and "$ref" in schema:
        types = {"object"}
    return frozenset(types)


def _kind_of(word: str) -> str | None:
    """The JSON type of a text; None when the text is no JSON."""
    try:
        value = json.loads(word, parse_constant=_reject)
    except (ValueError, RecursionError):
        return None
    return _KINDS[type(value)]


def _reject(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _allows(types: frozenset[str], kind: str) -> bool:
    return not types or kind in types or (kind == "integer" and "number" in types)


def _as_integers(given: Any, schema: Object) -> Any:
    match given:
        case float() if given.is_integer() and _is_whole(_types(schema)):
            return int(given)
        case dict():
            return {key: _as_integers(each, member(schema, key)) for key, each in given.items()}
        case list():
            return [_as_integers(each, element(schema)) for each in given]
    return given


def _is_whole(types: frozenset[str]) -> bool:
    """Whether a value of these types is an integer if it is a number."""
    return "integer" in types and "number" not in types


def _whole(number: str, types: frozenset[str]) -> str | None:
    """The digits of a JSON number that is whole, such as 7.0 or 1e3, where the schema allows an integer and no other
    number; else None."""
    if not _is_whole(types):
        return None
    exact = Decimal(number)
    if exact.adjusted() > _EXPONENT_MAX or exact != exact.to_integral_value():
        return None
    return str(int(exact))


def _python(word: str, types: frozenset[str]) -> str | None:
    """The JSON of a Python literal, if the schema allows its type; None for other texts. Some models write Python."""
    kind = _kind_of(_PYTHON_WORDS.get(word, ""))
    if kind is not None and kind in types:
        return _PYTHON_WORDS[word]
    if word[:1] in ("[", "{") and types & {"array", "object"}:
        return python_literals.json_of(word)
    return None
