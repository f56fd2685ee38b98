"""Reads the headers of a call: its method, its metadata and its timeout."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass

from antiphon_http2.errors import GrpcError
from antiphon_http2.header_codec import Headers
from antiphon_http2.limits import REQUEST_METADATA_BYTES_MAX
from antiphon_http2.statuses import INVALID_ARGUMENT, RESOURCE_EXHAUSTED

Metadata = tuple[tuple[str, str | bytes], ...]

_PSEUDO = (b":method", b":scheme", b":path", b":authority")
_NEEDED = (b":method", b":scheme", b":path")
_OF_A_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
_NAME = re.compile(rb"[!#-'*+\-.0-9^-z|~]+")  # a token (RFC 9110, section 5.6.2) without capital letters
_PATH = re.compile(rb"/[!-~]*")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_S = {b"H": 3_600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_FIELD_BYTES = 32  # of each field, besides its name and value (RFC 9113, section 6.5.2)


class MalformedRequest(Exception):
    """Headers that HTTP/2 does not allow. Their stream is reset."""


class NotGrpc(Exception):
    """An HTTP request that is no gRPC call. `http_status` is the answer."""

    def __init__(self, http_status: int) -> None:
        super().__init__(str(http_status))
        self.http_status = http_status


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The headers of a call. Values of metadata whose names end in -bin are bytes, as are text values that are not
    UTF-8."""

    path: str
    metadata: Metadata
    timeout_s: float | None


def read_head(headers: Headers) -> RequestHead:
    """Reads the headers of a call. MalformedRequest, NotGrpc; GrpcError: the metadata are too large or malformed."""
    pseudo, fields = _split(headers)
    if pseudo[b":method"] != b"POST":
        raise NotGrpc(405)
    if not _is_grpc(_first(fields, b"content-type")):
        raise NotGrpc(415)
    if sum(_size(name, value) for name, value in headers) > REQUEST_METADATA_BYTES_MAX:
        raise GrpcError(RESOURCE_EXHAUSTED, f"The metadata have more than {REQUEST_METADATA_BYTES_MAX} bytes.")
    metadata = tuple(
        entry for name, value in fields if _is_metadata(name) for entry in _entries(name.decode("ascii"), value)
    )
    return RequestHead(pseudo[b":path"].decode("ascii"), metadata, _timeout_s(fields))


def _split(headers: Headers) -> tuple[dict[bytes, bytes], Headers]:
    """The pseudo-headers, and the fields behind them. MalformedRequest: RFC 9113, sections 8.2 and 8.3, forbids it."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in headers:
        if not name.startswith(b":"):
            break
        if name not in _PSEUDO or name in pseudo:
            raise MalformedRequest("It has an unknown or repeated pseudo-header.")
        pseudo[name] = value
        count += 1
    if any(name not in pseudo for name in _NEEDED) or not _PATH.fullmatch(pseudo[b":path"]):
        raise MalformedRequest("It lacks a pseudo-header, or its path is none.")
    fields = headers[count:]
    for name, value in fields:
        if not _NAME.fullmatch(name) or name in _OF_A_CONNECTION or (name == b"te" and value != b"trailers"):
            raise MalformedRequest("It has a field that HTTP/2 does not allow.")
        if b"\n" in value or b"\r" in value or b"\0" in value:
            raise MalformedRequest("It has a value with a line break or NUL.")
    return pseudo, fields


def count_values(headers: Headers) -> int:
    """The number of values. Each of the binary values that one field joins by commas is a value of its own."""
    return sum(_values(name, value) for name, value in headers)


def _values(name: bytes, value: bytes) -> int:
    return 1 + value.count(b",") if name.endswith(b"-bin") else 1


def _size(name: bytes, value: bytes) -> int:
    """The bytes of one field, with those of each value: 13,000 commas are 13,000 values."""
    return len(name) + len(value) + _FIELD_BYTES * _values(name, value)


def _is_grpc(content_type: bytes) -> bool:
    return content_type == b"application/grpc" or content_type.startswith((b"application/grpc+", b"application/grpc;"))


def _first(fields: Headers, wanted: bytes) -> bytes:
    return next((value for name, value in fields if name == wanted), b"")


def _is_metadata(name: bytes) -> bool:
    return not name.startswith(b"grpc-") and name not in (b"te", b"content-type")


def _entries(name: str, value: bytes) -> list[tuple[str, str | bytes]]:
    """The entries of one field. Proxies may join values of a binary one by commas. GrpcError: it is not base64."""
    if name.endswith("-bin"):
        return [(name, _binary(name, part)) for part in value.split(b",")]
    try:
        return [(name, value.decode("utf-8"))]
    except UnicodeDecodeError:
        return [(name, value)]


def _binary(name: str, text: bytes) -> bytes:
    text = text.strip().rstrip(b"=")
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
    except binascii.Error as error:
        raise GrpcError(INVALID_ARGUMENT, f"The value of the metadata '{name}' is not base64.") from error


def _timeout_s(fields: Headers) -> float | None:
    text = _first(fields, b"grpc-timeout")
    if not text:
        return None
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        raise GrpcError(INVALID_ARGUMENT, "'grpc-timeout' is not up to eight digits and one of H, M, S, m, u, n.")
    return int(match[1]) * _UNIT_S[match[2]]
