"""The request of a call: its headers in gRPC's form, and one message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_RESERVED = ("grpc-", "content-type", "te", "user-agent", "host", "connection")
_TIMEOUT_MS_MAX = 99_999_999  # a timeout has eight digits at most


@dataclass(frozen=True, slots=True)
class Request:
    """One call. Values of metadata are ASCII; under a name that ends in -bin they are base64 already.

    ValueError: a name or a value of the metadata is none that gRPC allows.
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
        """Those that every call has come first, so that the compression context keeps them."""
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
    """A timeout in milliseconds; in seconds if those are too many for its eight digits."""
    timeout_ms = max(1, round(timeout_s * 1000))
    if timeout_ms <= _TIMEOUT_MS_MAX:
        return f"{timeout_ms}m"
    return f"{min(timeout_ms // 1000, _TIMEOUT_MS_MAX)}S"
