"""An HTTP client for servers that requests name.

* The IP address is checked when the socket to it is created (`CheckedSockets`): whatever a name resolves to, and
  however the URL spells it, no connection is made to an address that is not permitted. There is no second DNS lookup,
  so DNS rebinding has no effect.
* Heads and framing of answers are bounded (http_connections.py).
* No cookies, no proxy from the environment; nothing is decompressed.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from antiphon_core.egress.http_connections import BoundedConnector
from antiphon_core.egress.urls import Permits

CONNECT_TIMEOUT_S = 5.0


class CheckedSockets:
    """Creates the socket of each connection. OSError: its address may not be connected to."""

    def __init__(self, permits: Permits) -> None:
        self._permits = permits

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _name, address = info
        if not self._permits(str(address[0])):
            raise OSError(errno.EACCES, f"nothing may be sent to the address {address[0]}")
        return socket.socket(family, kind, protocol)


def guarded_session(
    permits: Permits,
    resolver: AbstractResolver,
    *,
    headers: Mapping[str, str],
    chunk_bytes: int,
    connections_max: int,
    tls: ssl.SSLContext | None = None,
    keepalive_s: float = 0.0,
    traces: Sequence[aiohttp.TraceConfig] = (),
) -> aiohttp.ClientSession:
    """Opens a client. Call this inside the event loop; the caller closes the session, and the resolver after it.

    `chunk_bytes` bounds the framing of bodies (`BoundedConnector`). `tls` has the trusted certificates; without it,
    those of the system are trusted. `keepalive_s`: the time that an idle connection is kept, or 0 for none. The caller
    must not let the client follow redirects."""
    keeping: dict[str, Any] = {"keepalive_timeout": keepalive_s} if keepalive_s else {"force_close": True}
    connector = BoundedConnector(
        chunk_bytes=chunk_bytes,
        resolver=resolver,
        ssl=tls or True,
        socket_factory=CheckedSockets(permits),
        limit=connections_max,
        **keeping,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        auto_decompress=False,
        trust_env=False,
        trace_configs=list(traces),
    )
