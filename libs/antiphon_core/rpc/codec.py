"""Messages to bytes and back. Every byte is read and written by protobuf's own class, once.

It refuses truncation and invalid UTF-8 itself. A field of the wrong wire type it keeps among the unknown ones, where it
is looked for here: nothing that a caller sent is dropped in silence.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc import culprits
from antiphon_core.rpc.message_types import MessageType

Plain = TypeVar("Plain", bound=Message)


def encode(kind: MessageType, message: Any) -> bytes:
    """The bytes of `message`. ValueError, TypeError: a field has a value that the wire cannot carry."""
    data: bytes = kind.to_strict(message).SerializeToString()
    return data


def decode(kind: MessageType, data: bytes) -> Any:
    """The message in `data`. InvalidRequest: the bytes are not a message of this type; a string that is not UTF-8, or a
    field of the wrong wire type, is named."""
    try:
        strict = kind.strict.FromString(data)
    except DecodeError as error:
        field = culprits.not_utf8(kind.strict.DESCRIPTOR, data)
        if field is not None:
            raise InvalidRequest(f"'{field}' is not UTF-8.", field=field, code="invalid_value") from error
        raise InvalidRequest(f"Not a valid {kind.name}: {error}.") from error
    field = culprits.mistyped(kind, strict)
    if field is not None:
        raise InvalidRequest(f"'{field}' has the wrong wire type.", field=field, code="invalid_type")
    return kind.from_strict(strict)


def decode_plain(kind: type[Plain], data: bytes) -> Plain:
    """A message of a service that comes with gRPC. InvalidRequest: the bytes are not a message of this type."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"Not a valid {kind.DESCRIPTOR.name}: {error}.") from error
