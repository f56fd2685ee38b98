"""JSON as Antiphon writes and reads it: compact UTF-8, and arrays joined as bytes rather than parsed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from antiphon_core.errors import InvalidRequest
from antiphon_core.limits import JSON_DEPTH_MAX, JSON_VALUES_MAX

Object = dict[str, Any]
_NO_BEGINNING = bytes(set(range(256)) - set(b",[{"))
_NO_MARK = bytes(set(range(256)) - set(b',[{"'))
_CONTAINERS = (dict, list)
_COUNTED_BYTES_MAX = 256 * 2**10

dumps = orjson.dumps
loads = orjson.loads
Fragment = orjson.Fragment
"""JSON bytes that stand in a value and are written as they are."""


def compact(value: Any) -> bytes:
    """A value as bytes that are kept: `dumps` gives bytes that occupy 4 KiB, however few they are."""
    return bytes(memoryview(orjson.dumps(value)))


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
    return b"".join((head, comma, dumps(name), b":", value, b"}"))


def parse_object(data: bytes, *, field: str | None = None) -> Object:
    """A JSON object from outside. InvalidRequest: no JSON, no object, nested deeper than JSON_DEPTH_MAX, or with more
    than JSON_VALUES_MAX values."""
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


def work_bytes(data: bytes) -> int:
    """How much work it is to parse, check and rewrite a JSON text, in bytes of one that is mostly text: a value takes
    as long as 32 bytes. Commas in texts are taken for values."""
    if len(data) > _COUNTED_BYTES_MAX:
        return len(data)
    return max(len(data), 32 * len(data.translate(None, _NO_BEGINNING)))


def has_values_over(data: bytes, most: int, *, piece_bytes: int = 64 * 2**10) -> bool:
    """Whether a JSON text has more than `most` commas and opening brackets outside its texts. Each value but the first
    stands behind one of them.

    Reads `piece_bytes` at a time. Making the values, to count them, is what would take long."""
    if len(data) <= most or len(data.translate(None, _NO_BEGINNING)) <= most:  # commas in texts included
        return False
    values, is_text, held = 0, False, b""
    for start in range(0, len(data), piece_bytes):
        piece = held + data[start : start + piece_bytes]
        held = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        bare = piece.removesuffix(held).replace(b"\\\\", b"").replace(b'\\"', b"")
        runs = bare.translate(None, _NO_MARK).split(b'"')
        values += sum(map(len, runs[is_text::2]))
        if values > most:
            return True
        is_text ^= len(runs) % 2 == 0
    return False


def kind(value: object) -> str:
    """The kind of a JSON value in words, for messages."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a number")


def _parse(data: bytes, field: str | None, *, is_known: bool = False) -> Any:
    if not is_known and has_values_over(data, JSON_VALUES_MAX):
        raise InvalidRequest(f"{_subject(field)} has more than {JSON_VALUES_MAX} values.", field=field)
    try:
        value = loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"{_subject(field)} could not be parsed as JSON: {error}.", field=field) from error
    if not is_known and _depth_over(value, JSON_DEPTH_MAX):
        raise InvalidRequest(f"{_subject(field)} is nested deeper than {JSON_DEPTH_MAX} levels.", field=field)
    return value


def _subject(field: str | None) -> str:
    return f"'{field}'" if field else "The request body"


def _depth_over(value: object, levels: int) -> bool:
    """Whether a JSON value nests deeper than so many levels; walks level by level, without recursion."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(levels):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return False
    return True
