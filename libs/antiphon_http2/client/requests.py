"""The request of a call: its headers as gRPC requires them, and one message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_RESERVED = ("grpc-", "content-type", "te", "user-agent", "host", "connection")
_TIMEOUT_MS_MAX = 99_999_999  # gRPC allows eight digits


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one call. Values of metadata are ASCII; those of names that end in -bin must be base64.

    ValueError: gRPC does not allow a name or a value of the metadata.
    """

    authority: str
    scheme: str
    path: str
    message: bytes
    metadata: Sequence[tuple[str, str]] = ()
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.metadata:
            if not _NAME.fullmatch(name) or name.startswith(_RESERVED[0]) or name in _RESERVED:
                raise ValueError(f"not a name of metadata: {name!r}")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of '{name}' is not ASCII")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The HTTP/2 headers. Those that are the same for all calls come first."""
        timeout = [("grpc-timeout", timeout_text(self.timeout_s))] if self.timeout_s is not None else []
        return [
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", self.path),
            (":authority", self.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "antiphon"),
            *timeout,
            *self.metadata,
        ]


def timeout_text(timeout_s: float) -> str:
    """The value of `grpc-timeout`: in milliseconds, or in seconds if that would have more than eight digits."""
    timeout_ms = max(1, round(timeout_s * 1000))
    if timeout_ms <= _TIMEOUT_MS_MAX:
        return f"{timeout_ms}m"
    return f"{min(timeout_ms // 1000, _TIMEOUT_MS_MAX)}S"
