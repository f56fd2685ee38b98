"""Small damage to well-formed requests: to JSON values, to bytes, and to messages in protobuf's wire format.

Each function takes a `random.Random` and returns a new value; nothing is changed in place.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.support.wire_types import FIXED32, FIXED64, GROUP, LENGTH, VARINT, tagged, varint

_ODD: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**40,
    1e308,
    -0.0,
    0.5,
    "",
    " ",
    "\x00",
    "\r\nX-Injected: 1",
    "\u202e",
    "\U0010ffff",
    "<|im_start|>",
    "../../etc/passwd",
    "resp_",
    "conv_" + "0" * 48,
    "a" * 5_000,
    "data:image/png;base64,AAAA",
    "https://127.0.0.1/x",
    [],
    [[]],
    [None],
    {},
    {"": {}},
    {"type": None},
    {"$ref": "#"},
)
"""Values for places where other values are expected."""

_RAW: Sequence[bytes] = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b'"\\ud800"', b"1e999", b"NaN", b"-Infinity", b"01")
"""Bytes that are not JSON, or whose value is not valid in JSON."""


def odd_value(random: Random) -> Any:
    """Returns a value of any JSON type, often at the limit of its type."""
    if random.random() < 0.1:
        return nested(random.choice((20, 200, 5_000)), random.choice("[{"))
    return copy.deepcopy(random.choice(_ODD))


def nested(depth: int, kind: str) -> Any:
    """Returns nested arrays or objects. The depth stays below the limit of Python's own encoder."""
    value: Any = 0
    for _ in range(min(depth, 400)):
        value = [value] if kind == "[" else {"a": value}
    return value


def damaged_json(random: Random, value: Any) -> bytes:
    """Returns the JSON text of a value with one to three mistakes, in the value or in the text."""
    value = copy.deepcopy(value)
    for _ in range(random.randrange(1, 4)):
        value = _damage_value(random, value)
    data = json.dumps(value).encode()  # json allows integers of any length
    return random.choice(_JSON_TEXTS)(random, data) if random.random() < 0.3 else data


def _damage_value(random: Random, value: Any) -> Any:
    places = list(_places(value))
    if not places:
        return odd_value(random)
    holder, key = random.choice(places)
    kind = random.randrange(5)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[random.choice(("unknown", "id", "type", "role", key + "s"))] = odd_value(random)
    elif kind == 2 and isinstance(holder[key], list):
        holder[key] = holder[key] * random.choice((2, 50))
    else:
        holder[key] = odd_value(random)
    return value


def _places(value: Any) -> Any:
    """Yields each container in a value with each of its keys."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from _places(inner)


def _doubled_member(random: Random, data: bytes) -> bytes:
    return data.replace(b"{", b'{"model":"m","model":1,', random.choice((1, -1)))


def _raw_value(random: Random, data: bytes) -> bytes:
    before, colon, after = data.partition(b":")
    return before + colon + random.choice(_RAW) + b"," + after


def _deep(random: Random, data: bytes) -> bytes:
    opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    depth = random.choice((100, 1_000, 50_000))
    return data[:-1] + b',"deep":' + opened * depth + b"0" + closed * depth + b"}"


def truncated(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))] if data else data


def flipped(random: Random, data: bytes) -> bytes:
    """Returns the bytes with some of them changed."""
    changed = bytearray(data or b"x")
    for _ in range(random.randrange(1, 6)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def inserted(random: Random, data: bytes) -> bytes:
    """Returns the bytes with other bytes inserted."""
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice((*_RAW, b"\x00", random.randbytes(8))) + data[at:]


def doubled(_random: Random, data: bytes) -> bytes:
    return data + data


_JSON_TEXTS: Sequence[Callable[[Random, bytes], bytes]] = (
    _doubled_member,
    _raw_value,
    _deep,
    truncated,
    flipped,
    inserted,
    doubled,
)


# ---- Protobuf ----


def stray_field(random: Random, numbers: Sequence[int]) -> bytes:
    """Returns a field with a known or unknown number, and any wire type and content."""
    number = random.choice((*numbers, *numbers, 15, 999, 2**29 - 1))
    kind = random.choice((VARINT, FIXED64, LENGTH, LENGTH, GROUP, FIXED32))
    if kind == VARINT and random.random() < 0.5:
        return varint(number << 3) + varint(random.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)))
    content = random.choice((b"", b"\xff\xfe", b"\x00", b"a" * 3_000, random.randbytes(12), b"{}", b"[]", b"conv_1"))
    return tagged(number, kind, content)


def nested_groups(random: Random, number: int) -> bytes:
    """Returns a message of nested groups."""
    depth = random.choice((10, 99, 101, 3_000))
    if random.random() < 0.5:
        return varint(number << 3 | GROUP) * depth + varint(number << 3 | 4) * depth
    data = b""
    for _ in range(min(depth, 200)):
        data = varint(number << 3 | LENGTH) + varint(len(data)) + data
    return data


def overlong_length(random: Random, number: int) -> bytes:
    """Returns a field that announces more bytes than follow."""
    return varint(number << 3 | LENGTH) + varint(random.choice((1, 2**20, 2**31 - 1, 2**63))) + b""


WIRE: Sequence[Callable[[Random, bytes], bytes]] = (truncated, flipped, flipped, inserted, doubled)
