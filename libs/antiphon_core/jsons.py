"""Reading and writing of JSON: compact UTF-8, with limits for JSON from outside, and arrays joined without parsing."""

from __future__ import annotations

import codecs
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

_NO_MEMORY = "Not enough memory"

dumps = orjson.dumps
Fragment = orjson.Fragment
"""JSON bytes as a part of a value; `dumps` writes them unchanged."""


def loads(data: bytes | str) -> Any:
    """Parses trusted JSON. orjson.JSONDecodeError, which is a ValueError: it is no JSON. MemoryError: orjson reports a
    lack of memory as an error of the JSON, which would blame the client or the stored bytes."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(_NO_MEMORY):
            raise MemoryError from error
        raise


def compact(value: Any) -> bytes:
    """A value as JSON bytes that are to be kept in memory. The bytes from `dumps` occupy at least 4 KiB."""
    return bytes(memoryview(orjson.dumps(value)))


def canonical(value: Any) -> bytes:
    """A value as JSON bytes that are equal for equal values: members are sorted by name."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def join_arrays(arrays: Iterable[bytes]) -> bytes:
    """Concatenates JSON arrays without parsing them."""
    return b"[" + b",".join(inner for array in arrays if (inner := array.strip()[1:-1].strip())) + b"]"


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """Appends a member to a JSON object without parsing it. `body` must not have that member yet."""
    head = body.rstrip()[:-1]
    comma = b"" if head.rstrip().endswith(b"{") else b","
    return b"".join((head, comma, dumps(name), b":", value, b"}"))


def parse_object(data: bytes, *, field: str | None = None) -> Object:
    """Parses a JSON object from outside. InvalidRequest: it is not JSON, no object, nested deeper than JSON_DEPTH_MAX,
    or has more than JSON_VALUES_MAX values."""
    value = _parse(data, field)
    if not isinstance(value, dict):
        raise InvalidRequest(
            f"{_subject(field)} must be a JSON object, but is {kind(value)}.", field=field, code="invalid_type"
        )
    return value


def parse_array(
    data: bytes, *, field: str | None = None, is_known: bool = False, values_max: int = JSON_VALUES_MAX
) -> list[Any]:
    """Parses a JSON array from outside. InvalidRequest as in parse_object, with `values_max` in place of
    JSON_VALUES_MAX. `is_known`: its elements have passed these checks before, so depth and number of values are not
    checked again."""
    value = _parse(data, field, is_known=is_known, values_max=values_max)
    if not isinstance(value, list):
        raise InvalidRequest(
            f"{_subject(field)} must be a JSON array, but is {kind(value)}.", field=field, code="invalid_type"
        )
    return value


def work_bytes(*texts: bytes) -> int:
    """Estimates the work to parse, check and rewrite JSON texts, in bytes of JSON that is mostly text. A value counts
    as 32 bytes; commas within strings are counted as values, too."""
    work = 0
    for data in texts:
        counted = 32 * len(data.translate(None, _NO_BEGINNING)) if len(data) <= _COUNTED_BYTES_MAX else 0
        work += max(len(data), counted)
    return work


def has_values_over(data: bytes, most: int, *, piece_bytes: int = 64 * 2**10) -> bool:
    """Whether JSON has more than `most` commas and opening brackets outside its strings. Each value but the first
    follows one of them.

    Scans `piece_bytes` at a time. Parsing the JSON to count its values would take the time that this check limits."""
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
    """The JSON type of a value in words, for messages."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a number")


def _parse(data: bytes, field: str | None, *, is_known: bool = False, values_max: int = JSON_VALUES_MAX) -> Any:
    if not is_known and len(data) > values_max and has_values_over(data, values_max):
        raise InvalidRequest(f"{_subject(field)} has more than {values_max} values.", field=field)
    try:
        value = loads(data)
    except orjson.JSONDecodeError as error:
        message = f"{_subject(field)} could not be parsed as JSON: {error}.{_encoding_hint(data, error)}"
        raise InvalidRequest(message, field=field) from error
    if len(data) > JSON_DEPTH_MAX and not (is_known or _is_shallow(data)) and _depth_over(value, JSON_DEPTH_MAX):
        raise InvalidRequest(f"{_subject(field)} is nested deeper than {JSON_DEPTH_MAX} levels.", field=field)
    return value


def _encoding_hint(data: bytes, error: orjson.JSONDecodeError) -> str:
    """Advice on text that is not Unicode or not UTF-8. JSON begins with ASCII, which has a zero byte in UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:2]:
        return " It looks like UTF-16: send UTF-8 (RFC 8259, section 8.1)."
    if "surrogate in string" in str(error):
        return " An escape of half a UTF-16 surrogate pair is no text: send both halves, or U+FFFD."
    return ""


def _subject(field: str | None) -> str:
    return f"'{field}'" if field else "The request body"


def _is_shallow(data: bytes) -> bool:
    """Whether JSON has so few opening brackets, those in texts included, that it cannot be nested too deep."""
    return len(data) <= _COUNTED_BYTES_MAX and data.count(b"{") + data.count(b"[") <= JSON_DEPTH_MAX


def _depth_over(value: object, levels: int) -> bool:
    """Whether a JSON value is nested deeper than `levels`. Walks level by level, without recursion."""
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
