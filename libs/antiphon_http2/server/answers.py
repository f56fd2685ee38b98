"""The headers and trailers of an answer."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from antiphon_http2.statuses import OK

Fields = list[tuple[str, str]]

HEADERS: Fields = [(":status", "200"), ("content-type", "application/grpc")]
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")  # what `grpc-message` may have as it is


@dataclass(frozen=True, slots=True)
class Status:
    """The end of a call. `details` is a serialized google.rpc.Status; `metadata` are trailers, those with bytes have
    names that end in -bin."""

    code: int
    message: str = ""
    details: bytes = b""
    metadata: Sequence[tuple[str, str | bytes]] = ()


SUCCESS = Status(OK)


def trailers(status: Status) -> Fields:
    fields = [("grpc-status", str(status.code))]
    if status.message:
        fields.append(("grpc-message", quote(status.message, safe=_PLAIN)))
    if status.details:
        fields.append(("grpc-status-details-bin", _base64(status.details)))
    for name, value in status.metadata:
        fields.append((name, value if isinstance(value, str) else _base64(value)))
    return fields


def http_answer(http_status: int) -> Fields:
    """The whole answer to an HTTP request that is no gRPC call."""
    return [(":status", str(http_status)), ("content-length", "0")]


def _base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).rstrip(b"=").decode("ascii")
