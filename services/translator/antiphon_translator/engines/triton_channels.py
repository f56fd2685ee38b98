"""gRPC channels to Triton servers: one per endpoint, shared by all models that are served there.

A channel multiplexes any number of streams and reconnects by itself, so nothing is gained by a second one.
"""

from __future__ import annotations

from collections import Counter

import grpc

# Triton closes connections whose pings come more often than this, and its own limit is five minutes.
_KEEPALIVE_MS = 300_000
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # a restarted server is used again within about a second
)


class TritonChannels:
    """The channels of one process, each closed when its last user let it go. For one event loop."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._users: Counter[str] = Counter()

    def acquire(self, endpoint: str) -> grpc.aio.Channel:
        """The channel to `host:port`. Whoever acquires it must release it."""
        if endpoint not in self._channels:
            self._channels[endpoint] = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        self._users[endpoint] += 1
        return self._channels[endpoint]

    async def release(self, endpoint: str) -> None:
        """Gives a channel back; after the last user's, RPCs that still run on it end as cancelled."""
        self._users[endpoint] -= 1
        if not self._users[endpoint]:
            await self._channels.pop(endpoint).close()
