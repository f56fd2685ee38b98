"""Finds the wrong field of a message where protobuf's parser does not name it.

The parser rejects a message with a string that is not UTF-8, but does not name the string. `not_utf8` finds it in the
bytes, for which it parses the wire format (https://protobuf.dev/programming-guides/encoding) as far as needed.

The parser accepts a field of the wrong wire type as an unknown field, so the declared field keeps its default.
`mistyped` looks for such fields in every message that was parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from antiphon_core.rpc.message_types import MessageType

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
PACKED_BYTES_MAX = 8 * 2**20  # of numbers in one field: the token ids of the longest turns have 5 MB
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def find_mistyped(kind: MessageType, strict: Any) -> str | None:
    """The path of the first field whose wire type is not the declared one; None if there is none."""
    unknown_fields: Any = UnknownFieldSet(strict)
    for unknown in unknown_fields:
        field = strict.DESCRIPTOR.fields_by_number.get(unknown.field_number)
        if field is not None:
            return str(field.name)
    for name, part, is_repeated in kind.parts:
        if is_repeated or strict.HasField(name):
            inner = getattr(strict, name)
            for each in inner if is_repeated else (inner,):
                path = find_mistyped(part, each)
                if path is not None:
                    return f"{name}.{path}"
    return None


def has_more_fields(descriptor: Descriptor, data: bytes, most: int) -> bool:
    """Whether a message and the messages in it have more than `most` fields, unknown ones and elements included. The
    bytes may be malformed, and are read as far as they are not."""
    waiting, count = [(descriptor, 0, len(data))], 0
    with suppress(IndexError):
        while waiting:
            kind, at, end = waiting.pop()
            while at < end:
                tag, at = _varint(data, at)
                count += 1
                if count > most:
                    return True
                wire = tag & 7
                if wire == _VARINT:
                    _value, at = _varint(data, at)
                elif wire == _LENGTH:
                    length, at = _varint(data, at)
                    field: Any = kind.fields_by_number.get(tag >> 3)
                    if field is not None and field.message_type is not None:
                        waiting.append((field.message_type, at, at + length))
                    elif field is not None and field.is_packed and length > PACKED_BYTES_MAX:
                        return True
                    at += length
                else:
                    at += _FIXED_BYTES.get(wire, 0)  # the fields of a group are counted like others
    return False


def not_utf8(descriptor: Descriptor, data: bytes) -> str | None:
    """The path of the first string that is not UTF-8; None if there is none, or if the bytes are malformed."""
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
    """Yields (number, content) of each length-delimited field. IndexError: the bytes are truncated."""
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
