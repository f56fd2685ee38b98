"""The channels of a client: calls go to servers that report to be healthy, as long as there is one.

A server that has lost its database still accepts connections, and round robin gave it its share of all calls: with one
of two stores in that state, half of the calls failed. gRPC's client-side health checking leaves such servers out. But a
channel whose servers are all unhealthy fails every call without sending it, and hides the reason. Calls are then sent
over a second channel, which does not check, so that a server itself answers with its reason, or serves after all. Both
channels share their connections (docs/adr/0146-calls-go-to-healthy-servers.md).
"""

from __future__ import annotations

from typing import Any

import grpc
import orjson
from grpc_health.v1 import health_pb2_grpc

from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.services import Api, Repeat

_REPEATED = (Repeat.ALWAYS, Repeat.NAMED, Repeat.ITEMS)


class Channel:
    """One channel, with its methods by name and the health service."""

    def __init__(self, endpoint: str, api: Api, tls: grpc.ChannelCredentials | None, *, checks_health: bool) -> None:
        made = options(api, checks_health=checks_health)
        if tls is not None:
            self.channel = grpc.aio.secure_channel(endpoint, tls, options=made)
        else:
            self.channel = grpc.aio.insecure_channel(endpoint, options=made)
        self.health: Any = health_pb2_grpc.HealthStub(self.channel)
        self.methods: dict[str, Any] = {
            name: (self.channel.unary_stream if method.streams else self.channel.unary_unary)(method.path)
            for name, method in api.methods.items()
        }


class Channels:
    """The two channels to one endpoint. Must be made and used inside a running event loop, and closed."""

    def __init__(self, endpoint: str, api: Api, tls: grpc.ChannelCredentials | None) -> None:
        self._healthy = Channel(endpoint, api, tls, checks_health=True)
        self._any = Channel(endpoint, api, tls, checks_health=False)

    def choose(self) -> Channel:
        """The channel for one call. UsageError: they are closed.

        A call that waits for the first state of a channel that checks health would fail unsent if no server is healthy.
        """
        state = self._healthy.channel.get_state(try_to_connect=True)
        return self._healthy if state is grpc.ChannelConnectivity.READY else self._any

    async def close(self) -> None:
        await self._healthy.channel.close()
        await self._any.channel.close()


def options(api: Api, *, checks_health: bool) -> list[tuple[str, Any]]:
    """The options of a channel. The health that counts is that of services that need no room, since a full server
    still reads and deletes."""
    # After a lost connection gRPC sends again by itself what every tenant can repeat (services.Repeat).
    repeatable = [method for method in api.methods.values() if method.row.repeat in _REPEATED]
    service_config: dict[str, Any] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [{"service": method.service, "method": method.name} for method in repeatable],
                "retryPolicy": {
                    "maxAttempts": 3,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "0.2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
    }
    if checks_health:
        service_config["healthCheckConfig"] = {"serviceName": api.name}
    return [
        ("grpc.service_config", orjson.dumps(service_config).decode()),
        ("grpc.enable_retries", 1),
        ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A successor of a server is used within about a second, as by antiphon_core.http2.
        ("grpc.dns_min_time_between_resolutions_ms", 1_000),
        ("grpc.initial_reconnect_backoff_ms", 250),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    ]
