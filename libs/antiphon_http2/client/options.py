"""The options of the connections to one endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_http2.limits import MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES


@dataclass(frozen=True, slots=True)
class Options:
    """Options of connections. `stream_window_bytes` is the most that a paused stream holds in memory;
    `message_bytes_max` is the limit of received messages.

    Triton, like every server with gRPC's defaults, closes a connection that sends pings more often than every five
    minutes, or while it has no open call. So pings are only sent while a call is open.
    """

    connect_timeout_s: float = 5.0  # address lookup, TCP, TLS and the server's settings together
    keepalive_interval_s: float = 300.0
    keepalive_timeout_s: float = 20.0
    backoff_first_s: float = 0.25
    backoff_max_s: float = 1.0  # so that a restarted server is used again within about a second
    stream_window_bytes: int = STREAM_WINDOW_BYTES
    message_bytes_max: int = MESSAGE_BYTES_MAX
