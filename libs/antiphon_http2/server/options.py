"""The options of a server."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_http2.limits import (
    CALLER_CONNECTIONS_ITEMS_MAX,
    CONNECTIONS_ITEMS_MAX,
    MESSAGE_BYTES_MAX,
    STREAMS_ITEMS_MAX,
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server. A connection that is older than `age_s` takes no new calls, so that clients connect again
    and find new servers; its calls may run `age_grace_s` longer."""

    message_bytes_max: int = MESSAGE_BYTES_MAX
    streams_max: int = STREAMS_ITEMS_MAX
    connections_max: int = CONNECTIONS_ITEMS_MAX
    caller_connections_max: int = CALLER_CONNECTIONS_ITEMS_MAX
    handshake_timeout_s: float = 10.0  # TLS and the client's settings
    frame_timeout_s: float = 10.0  # a frame or a header block of 16 to 20 KiB, from its first byte
    keepalive_interval_s: float = 30.0
    keepalive_timeout_s: float = 10.0
    age_s: float = 600.0
    age_grace_s: float = 3_600.0
