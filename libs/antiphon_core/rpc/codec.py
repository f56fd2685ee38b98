"""Serialization of messages, by protobuf's own classes.

Protobuf rejects truncated messages and invalid UTF-8, but keeps a field of the wrong wire type as an unknown field.
`decode` looks for such fields, so that no field of a request is ignored silently.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from antiphon_core.errors import InvalidRequest, ServiceFault, TooLarge
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import culprits
from antiphon_core.rpc.message_types import MessageType

FIELDS_MAX = 10_000
"""The fields and elements of a request, in all of its messages: the largest requests of Antiphon have 4,000. Protobuf
makes an object of each: 4 MB of unknown fields of three bytes stopped a process for seven seconds."""
UNCOUNTED_BYTES_MAX = 4 * 2**10

Plain = TypeVar("Plain", bound=Message)


def encode(kind: MessageType, message: Any) -> bytes:
    """Serializes `message`, or returns it if it is serialized already: handlers serialize large answers in a thread.
    ValueError, TypeError: a field has a value that its type cannot represent."""
    if isinstance(message, bytes):
        return message
    data: bytes = kind.to_strict(message).SerializeToString()
    return data


def encode_request(kind: MessageType, message: Any) -> bytes:
    """Serializes the request of an RPC. TooLarge: no service receives so many bytes. Raises what `encode` raises.

    The check is made here, because a service that rejects bytes does not say whether they are the request's."""
    data = encode(kind, message)
    if len(data) > RPC_MESSAGE_BYTES_MAX:
        raise TooLarge(f"The request is {len(data)} bytes long; services receive {RPC_MESSAGE_BYTES_MAX} at most.")
    return data


def decode(kind: MessageType, data: bytes) -> Any:
    """Parses a request. InvalidRequest: the bytes are no message of this type, or have too many fields; `field` names
    a string that is not UTF-8, or a field of the wrong wire type."""
    if len(data) > UNCOUNTED_BYTES_MAX and culprits.has_more_fields(kind.strict.DESCRIPTOR, data, FIELDS_MAX):
        raise InvalidRequest(
            f"{kind.name} has more than {FIELDS_MAX:,} fields and elements, or a list of numbers of more than "
            f"{culprits.PACKED_BYTES_MAX:,} bytes. Send several requests.",
            code="too_many_fields",
        )
    return _parse_message(kind, data)


def _parse_message(kind: MessageType, data: bytes) -> Any:
    try:
        strict = kind.strict.FromString(data)
    except DecodeError as error:
        field = culprits.not_utf8(kind.strict.DESCRIPTOR, data)
        if field is not None:
            raise InvalidRequest(f"'{field}' is not UTF-8.", field=field, code="invalid_value") from error
        raise InvalidRequest(f"Not a valid {kind.name}: {error}.") from error
    field = culprits.find_mistyped(kind, strict)
    if field is not None:
        raise InvalidRequest(f"'{field}' has the wrong wire type.", field=field, code="invalid_type")
    return kind.from_strict(strict)


def decode_answer(kind: MessageType, data: bytes) -> Any:
    """Parses the answer of a service. ServiceFault: the bytes are not a message of this type. A service that cannot be
    read is no mistake of the client, which an InvalidRequest would tell it."""
    try:
        return _parse_message(kind, data)
    except InvalidRequest as error:
        raise ServiceFault(f"A service answered what cannot be read: {error.message}") from error


def decode_plain(kind: type[Plain], data: bytes) -> Plain:
    """Parses a message of gRPC's own services. InvalidRequest: the bytes are not a message of this type."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"Not a valid {kind.DESCRIPTOR.name}: {error}.") from error
