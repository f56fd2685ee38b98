"""The status of a call, read from the headers and trailers of its response.

A response has one of three forms: headers, messages and trailers with a gRPC status; trailers only; or, from a proxy,
an HTTP status that is mapped to a gRPC status.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import OK, STATUS_MAX, UNKNOWN, status_of_http

Fields = Mapping[bytes, bytes]


def fields_of(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Headers by name; of several values with one name, the first."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        fields.setdefault(name, value)
    return fields


def is_informational(fields: Fields) -> bool:
    """Whether these are the headers of an interim response, such as 103 Early Hints."""
    status = fields.get(b":status", b"")
    return len(status) == 3 and status.startswith(b"1")


def error_in_headers(fields: Fields) -> GrpcError | None:
    """The error in a response's headers; None if messages can follow."""
    if fields.get(b":status") == b"200" and fields.get(b"content-type", b"").startswith(b"application/grpc"):
        return None
    return _status_of_fields(fields) or _not_grpc(fields)


def outcome(fields: Fields, *, is_only_answer: bool) -> GrpcError | None:
    """The outcome of a call by its trailers; None is OK. `is_only_answer`: no headers came before them."""
    if b"grpc-status" in fields:
        return _status_of_fields(fields)
    if is_only_answer:
        return _not_grpc(fields)
    return GrpcError(UNKNOWN, "The server ended the call without a status.")


def _status_of_fields(fields: Fields) -> GrpcError | None:
    text = fields.get(b"grpc-status", b"0")
    status = int(text) if text.isdigit() and len(text) <= 2 else STATUS_MAX + 1
    if status == OK:
        return None
    message = unquote_to_bytes(fields.get(b"grpc-message", b"")).decode("utf-8", errors="replace")
    if status > STATUS_MAX:
        return GrpcError(UNKNOWN, f"The server sent the status {text!r}. {message}")
    return GrpcError(status, message, details=binary_of(fields, b"grpc-status-details-bin"))


def binary_of(fields: Fields, name: bytes) -> bytes:
    """Decodes a field in base64, which may lack its padding. A malformed field reads as an absent one, b"": what such
    fields carry, details, comes in addition to the status."""
    text = fields.get(name, b"")
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return b""


def _not_grpc(fields: Fields) -> GrpcError:
    status, content_type = (fields.get(name, b"").decode("latin-1") for name in (b":status", b"content-type"))
    number = int(status) if status.isascii() and status.isdigit() else 0
    return GrpcError(
        status_of_http(number), f"The answer is not gRPC: HTTP status {status!r}, content-type {content_type!r}."
    )
