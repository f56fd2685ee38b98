"""TLS of one connection between two buffers, without I/O.

The loops' own TLS is not used: a connection would not be counted before its handshake is over, and uvloop cannot begin
a handshake on a connection that it has accepted (its `pause_reading` has no effect in `connection_made`).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

ALPN = "h2"
_READ_BYTES = 64 * 2**10


class TlsFault(Exception):
    """The peer violated TLS, or its certificate is not accepted. `take` has the alert for it."""


class TlsSession:
    """The server's end of a TLS connection. After each call the owner writes the result of `take`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        """`context` is changed to offer HTTP/2 by ALPN, and no renegotiation."""
        context.set_alpn_protocols([ALPN])
        context.options |= ssl.OP_NO_RENEGOTIATION
        self.is_secured = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def speaks_http2(self) -> bool:
        return self._session.selected_alpn_protocol() == ALPN

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The verified certificate of the peer; empty without one."""
        return self._session.getpeercert() or {}

    def receive(self, data: bytes) -> bytes:
        """Takes bytes of the socket, and returns what they contain. TlsFault."""
        self._incoming.write(data)
        try:
            if not self.is_secured:
                self._session.do_handshake()
                self.is_secured = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise TlsFault(str(error)) from error

    def _read(self) -> bytes:
        pieces = []
        try:
            while piece := self._session.read(_READ_BYTES):
                pieces.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):  # no more yet; or the end of all, before the socket's
            pass
        return b"".join(pieces)

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._session.write(rest) :]

    def take(self) -> bytes:
        """The bytes for the socket."""
        return self._outgoing.read()
