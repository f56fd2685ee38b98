"""Which field of a message is wrong, where protobuf's parser does not say so.

The parser refuses a message with a string that is not UTF-8, but does not name the string. `not_utf8` walks the bytes
of such a message. It knows the wire format (https://protobuf.dev/programming-guides/encoding) as far as it needs to:
tags, lengths, and what to pass over.

The parser accepts a field of the wrong wire type as an unknown field, so the declared field keeps its default.
`mistyped` looks for such fields in every message that was parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from antiphon_core.rpc.message_types import MessageType

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def mistyped(kind: MessageType, strict: Any) -> str | None:
    """The path of the first field whose wire type is not that of its declaration."""
    unknown_fields: Any = UnknownFieldSet(strict)
    for unknown in unknown_fields:
        field = strict.DESCRIPTOR.fields_by_number.get(unknown.field_number)
        if field is not None:
            return str(field.name)
    for name, part, is_repeated in kind.parts:
        if is_repeated or strict.HasField(name):
            inner = getattr(strict, name)
            for each in inner if is_repeated else (inner,):
                path = mistyped(part, each)
                if path is not None:
                    return f"{name}.{path}"
    return None


def not_utf8(descriptor: Descriptor, data: bytes) -> str | None:
    """The path of the first string that is not UTF-8; None when there is none, or the bytes are no message."""
    try:
        return next(_paths(descriptor, data), None)
    except IndexError:
        return None


def _paths(descriptor: Descriptor, data: bytes) -> Iterator[str]:
    for number, value in _fields(data):
        field: Any = descriptor.fields_by_number.get(number)
        if field is None:
            continue
        if field.type == FieldDescriptor.TYPE_STRING and not _is_text(value):
            yield field.name
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            yield from (f"{field.name}.{path}" for path in _paths(field.message_type, value))


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of the fields that have a length. IndexError: the bytes end too early."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _value, at = _varint(data, at)
        elif kind == _LENGTH:
            length, at = _varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
