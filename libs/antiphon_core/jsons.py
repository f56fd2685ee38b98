"""JSON as Antiphon writes and reads it: compact UTF-8, and arrays joined as bytes rather than parsed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from antiphon_core.errors import InvalidRequest
from antiphon_core.limits import JSON_DEPTH_MAX

Object = dict[str, Any]

dumps = orjson.dumps
loads = orjson.loads


def canonical(value: Any) -> bytes:
    """A value as bytes that depend on nothing but the value: members in alphabetical order."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def join_arrays(arrays: Iterable[bytes]) -> bytes:
    """One JSON array with the elements of several, without parsing any."""
    return b"[" + b",".join(inner for array in arrays if (inner := array.strip()[1:-1].strip())) + b"]"


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """A JSON object with one more member at its end, without parsing it. `body` must not have that member yet."""
    head = body.rstrip()[:-1]
    comma = b"" if head.rstrip().endswith(b"{") else b","
    return head + comma + dumps(name) + b":" + value + b"}"


def parse_object(data: bytes, *, field: str | None = None) -> Object:
    """A JSON object from outside. InvalidRequest: no JSON, no object, or nested deeper than JSON_DEPTH_MAX."""
    value = _parse(data, field)
    if not isinstance(value, dict):
        raise InvalidRequest(
            f"{_subject(field)} must be a JSON object, but is {kind(value)}.", field=field, code="invalid_type"
        )
    return value


def parse_array(data: bytes, *, field: str | None = None, is_known: bool = False) -> list[Any]:
    """A JSON array from outside. InvalidRequest as in parse_object. `is_known`: its elements were parsed like this when
    they came, so how deep they nest is not looked at again."""
    value = _parse(data, field, is_known=is_known)
    if not isinstance(value, list):
        raise InvalidRequest(
            f"{_subject(field)} must be a JSON array, but is {kind(value)}.", field=field, code="invalid_type"
        )
    return value


def kind(value: object) -> str:
    """What a JSON value is, for a person."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a number")


def _parse(data: bytes, field: str | None, *, is_known: bool = False) -> Any:
    try:
        value = loads(data)
        if is_known:
            return value
        dumps(value)  # refuses what could not be written again: lone surrogates
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError) as error:
        raise InvalidRequest(f"{_subject(field)} could not be parsed as JSON: {error}.", field=field) from error
    if _depth_over(value, JSON_DEPTH_MAX):
        raise InvalidRequest(f"{_subject(field)} is nested deeper than {JSON_DEPTH_MAX} levels.", field=field)
    return value


def _subject(field: str | None) -> str:
    return f"'{field}'" if field else "The request body"


def _depth_over(value: object, levels: int) -> bool:
    """Whether a JSON value nests deeper than so many levels; walks level by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True
