"""Connections to Triton servers: one per endpoint, shared by all models that are served there.

A connection multiplexes any number of streams and reconnects by itself, so nothing is gained by a second one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import grpc
from tritonclient.grpc import service_pb2_grpc

from antiphon_translator.engines.triton_transport import GrpcAioStreams, InferStreams

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


@dataclass(frozen=True, slots=True)
class TritonConnection:
    """One endpoint: `stub` for questions, `streams` for generations."""

    channel: grpc.aio.Channel
    stub: Any
    streams: InferStreams


class TritonChannels:
    """The connections of one process, each closed when its last user let it go. For one event loop."""

    def __init__(self) -> None:
        self._connections: dict[str, TritonConnection] = {}
        self._users: Counter[str] = Counter()

    def acquire(self, endpoint: str) -> TritonConnection:
        """The connection to `host:port`. The caller must release it."""
        if endpoint not in self._connections:
            self._connections[endpoint] = _connection(endpoint)
        self._users[endpoint] += 1
        return self._connections[endpoint]

    async def release(self, endpoint: str) -> None:
        """Gives a connection back; after the last user's, RPCs that still run on it end as cancelled."""
        self._users[endpoint] -= 1
        if not self._users[endpoint]:
            await self._connections.pop(endpoint).channel.close()


def _connection(endpoint: str) -> TritonConnection:
    channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    return TritonConnection(channel, service_pb2_grpc.GRPCInferenceServiceStub(channel), GrpcAioStreams(channel))
