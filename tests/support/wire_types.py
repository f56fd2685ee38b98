"""Fields in protobuf's wire format, written by hand: https://protobuf.dev/programming-guides/encoding#structure."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
WIRE_TYPES = frozenset({VARINT, FIXED64, LENGTH, GROUP, FIXED32})
_OWN = {
    FieldDescriptor.TYPE_DOUBLE: {FIXED64},
    FieldDescriptor.TYPE_STRING: {LENGTH},
    FieldDescriptor.TYPE_BYTES: {LENGTH},
    FieldDescriptor.TYPE_MESSAGE: {LENGTH},
}


def wrong_wire_types(field: Any) -> frozenset[int]:
    own = _OWN.get(field.type, {VARINT})
    return WIRE_TYPES - own - ({LENGTH} if field.is_repeated else set())  # repeated numbers may be packed


def tagged(number: int, wire_type: int, inner: bytes = b"\x01") -> bytes:
    """Encodes a field. `inner` is the content of a field with a length."""
    contents = {
        VARINT: b"\x01",
        FIXED64: b"\x01" * 8,
        LENGTH: varint(len(inner)) + inner,
        GROUP: varint(number << 3 | END_GROUP),
        FIXED32: b"\x01" * 4,
    }
    return varint(number << 3 | wire_type) + contents[wire_type]


def varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
