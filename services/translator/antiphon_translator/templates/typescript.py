"""Writes the JSON schema of a tool's parameters as a TypeScript type, for gpt-oss.

Its models were trained on the output of openai-harmony, so the types here are the same character by character, with all
oddities: `anyOf` and `$ref` are `any`, and only the first line of a description of several lines is a comment.
tests/golden/harmony compares every form with openai-harmony's own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

_PRIMITIVES = {"number": "number", "integer": "number", "boolean": "boolean"}


def type_of(schema: Any, indent: str = "") -> str:
    """The type that a schema describes. `indent` begins each line of an object."""
    variants = _list(schema, "oneOf")
    if variants is not None:
        return "".join(_variant(each, indent) for each in variants)
    kind = _member(schema, "type")
    if isinstance(kind, list) and any(isinstance(each, str) for each in kind):
        return " | ".join("number" if each == "integer" else each for each in kind if isinstance(each, str))
    match kind:
        case "object":
            return _object(schema, indent)
        case "array":
            return f"{type_of(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
        case "string":
            named = [f'"{each}"' for each in _list(schema, "enum") or () if isinstance(each, str)]
            return " | ".join(named) or "string"
        case str():
            return _PRIMITIVES.get(kind, "any")
    return "any"


def _object(schema: Any, indent: str) -> str:
    described = f"{indent}// {text}\n" if (text := _text(schema, "description")) is not None else ""
    properties = _member(schema, "properties")
    required = [name for name in _list(schema, "required") or () if isinstance(name, str)]
    members = (properties if isinstance(properties, dict) else {}).items()
    lines = "".join("".join(_property(name, each, indent, required)) for name, each in members)
    return f"{described}{{\n{lines}{indent}}}"


def _property(name: str, schema: Any, indent: str, required: Collection[str]) -> Iterator[str]:
    """One member of an object, with the comments above it."""
    mark = "" if name in required else "?"
    variants = _list(schema, "oneOf")
    yield from _comments(schema, indent)
    if variants is not None:
        yield from _choice(f"{name}{mark}", schema, variants, indent)
        return
    default = _default(schema) if _member(schema, "oneOf") is None else None
    yield f"{indent}{name}{mark}: {_nullable(schema, indent + '    ')},"
    yield f" // default: {default}\n" if default is not None else "\n"


def _comments(schema: Any, indent: str) -> Iterator[str]:
    if (title := _text(schema, "title")) is not None:
        yield f"{indent}// {title}\n{indent}//\n"
    description = _text(schema, "description")
    if description is not None and _member(schema, "oneOf") is None:
        yield f"{indent}// {description}\n"
    if examples := _list(schema, "examples"):
        yield f"{indent}// Examples:\n"
        yield from (f'{indent}// - "{each}"\n' for each in examples if isinstance(each, str))


def _choice(name: str, schema: Any, variants: list[Any], indent: str) -> Iterator[str]:
    """A property with several variants, each on a line of its own. If the property has a description, that of its first
    variant is left out."""
    described = _text(schema, "description")
    is_commented = described is not None and not (variants and _text(variants[0], "description") == described)
    if is_commented:
        yield f"{indent}// {described}\n"
    if (default := _default(schema)) is not None:
        yield f"{indent}// default: {default}\n"
    yield f"{indent}{name}:\n"
    for number, variant in enumerate(variants):
        text = _text(variant, "description")
        remarks = [] if text is None or text == described or (number == 0 and is_commented) else [text]
        if (default := _default(variant)) is not None:
            remarks.append(f"default: {default}")
        yield f"{indent} | {_nullable(variant, indent + '   ')}{_behind(remarks)}\n"
    yield f"{indent},\n"


def _variant(schema: Any, indent: str) -> str:
    """One of several types outside of an object."""
    remarks = [text for text in [_text(schema, "description")] if text is not None]
    if (default := _default(schema, quotes_enums=True)) is not None:
        remarks.append(f"default: {default}")
    return f"\n{indent} | {_nullable(schema, indent + '   ')}{_behind(remarks)}"


def _nullable(schema: Any, indent: str) -> str:
    written = type_of(schema, indent)
    return f"{written} | null" if _member(schema, "nullable") is True and "null" not in written else written


def _default(schema: Any, *, quotes_enums: bool = False) -> str | None:
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    value = schema["default"]
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if _list(schema, "enum") and not quotes_enums else f'"{value}"'


def _behind(remarks: list[str]) -> str:
    return f" // {' '.join(remarks)}" if remarks else ""


def _member(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, dict) else None


def _text(schema: Any, name: str) -> str | None:
    value = _member(schema, name)
    return value if isinstance(value, str) else None


def _list(schema: Any, name: str) -> list[Any] | None:
    value = _member(schema, name)
    return value if isinstance(value, list) else None
