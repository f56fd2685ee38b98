"""Connections to Triton servers: one per endpoint, shared by all models that are served there.

A connection multiplexes any number of streams and reconnects by itself, so nothing is gained by a second one. Unary
calls use grpc.aio. Generations use antiphon_http2, which reads a message of one token at a third of the cost, or
grpc.aio, too, if the setting `triton_transport` says so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import grpc

from antiphon_core.errors import EngineUnavailable
from antiphon_core.limits import ENGINE_MESSAGE_BYTES_MAX
from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.client.options import Options
from antiphon_translator.engines.triton_transport import GrpcAioStreams, InferStreams

# By default Triton closes connections that are pinged more often than every five minutes.
_KEEPALIVE_MS = 300_000
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # a restarted server is used again within about a second
)


Transport = Literal["lean", "grpc"]
"""The client library that carries generations: antiphon_http2 or grpc.aio."""


@dataclass(frozen=True, slots=True)
class TritonConnection:
    """The connection to one endpoint: `stub` for unary calls, `streams` for generations."""

    channel: grpc.aio.Channel
    stub: Any
    streams: InferStreams

    async def close(self) -> None:
        await self.streams.close()
        await self.channel.close()


class TritonChannels:
    """The connections of one process, each closed when its last user releases it. Use inside one event loop."""

    def __init__(self, transport: Transport = "lean") -> None:
        self._transport = transport
        self._connections: dict[str, TritonConnection] = {}
        self._users: Counter[str] = Counter()

    def acquire(self, endpoint: str) -> TritonConnection:
        """The connection to `host:port`. The caller must release it. EngineUnavailable: the endpoint is invalid."""
        if endpoint not in self._connections:
            self._connections[endpoint] = self._connection(endpoint)
        self._users[endpoint] += 1
        return self._connections[endpoint]

    async def release(self, endpoint: str) -> None:
        """Releases a connection. The last release closes it, which cancels RPCs that still run on it."""
        self._users[endpoint] -= 1
        if not self._users[endpoint]:
            await self._connections.pop(endpoint).close()

    def _connection(self, endpoint: str) -> TritonConnection:
        from tritonclient.grpc import service_pb2_grpc  # its package imports numpy; not every translator has a Triton

        lean = _lean_streams(endpoint) if self._transport == "lean" else None
        channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return TritonConnection(channel, stub, lean or GrpcAioStreams(channel))


def _lean_streams(endpoint: str) -> GrpcStreams:
    try:
        return GrpcStreams(endpoint, options=Options(message_bytes_max=ENGINE_MESSAGE_BYTES_MAX))
    except ValueError as error:
        raise EngineUnavailable(f"A Triton server cannot be reached: {error}.") from error
