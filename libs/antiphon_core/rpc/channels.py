"""The channels of a client: calls go to servers that report to be healthy, as long as there is one.

A server that has lost its database still accepts connections, and round robin gave it its share of all calls: with one
of two stores in that state, half of the calls failed. gRPC's client-side health checking leaves such servers out. But a
channel whose servers are all unhealthy fails every call without sending it, and hides the reason. Calls are then sent
over a second channel, which does not check, so that a server itself answers with its reason, or serves after all. Both
channels share their connections (docs/adr/0146-calls-go-to-healthy-servers.md).

gRPC cannot change the certificates of a channel. When they have changed, new calls go over new channels, and the old
ones are closed after their last call (docs/adr/0161-clients-follow-changed-certificates.md). In the same way channels
are replaced whose server does not answer: gRPC looks a name up again only after it has lost a connection, and it does
not notice that a machine has vanished (docs/adr/0162-silent-servers-are-looked-up-again.md).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import orjson
from grpc_health.v1 import health_pb2_grpc

from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.services import Api

log = logging.getLogger(__name__)

RECONNECT_INTERVAL_S = 5.0
"""The least time between two replacements of channels whose server does not answer: a slow server gets no flood of
connections."""
_RETIRED_GRACE_S = 3_600.0  # longer than any call, as that of the server for old connections
# Channels with different options share no connection. gRPC ignores an option that it does not know.
_NUMBER = "antiphon.number"


class Channel:
    """One channel, with its methods by name and the health service. Only channels of the same number share
    connections."""

    def __init__(
        self, endpoint: str, api: Api, tls: grpc.ChannelCredentials | None, *, number: int, checks_health: bool
    ) -> None:
        self.number = number
        made = [*options(api, checks_health=checks_health), (_NUMBER, number)]
        if tls is not None:
            self.channel = grpc.aio.secure_channel(endpoint, tls, options=made)
        else:
            self.channel = grpc.aio.insecure_channel(endpoint, options=made)
        self.health: Any = health_pb2_grpc.HealthStub(self.channel)
        self.methods: dict[str, Any] = {
            name: (self.channel.unary_stream if method.is_streaming else self.channel.unary_unary)(method.path)
            for name, method in api.methods.items()
        }


@dataclass(frozen=True, slots=True)
class ChannelPair:
    """The channel that checks health, and the one that does not. They share their connections."""

    healthy: Channel
    any: Channel

    async def close(self, grace_s: float | None = None) -> None:
        """Closes both. Running calls are cancelled after `grace_s`."""
        await asyncio.gather(self.healthy.channel.close(grace_s), self.any.channel.close(grace_s))


class Channels:
    """The two channels to one endpoint. `read_tls` returns the current certificates. Must be made and used inside a
    running event loop, and closed."""

    def __init__(self, endpoint: str, api: Api, read_tls: Callable[[], grpc.ChannelCredentials] | None) -> None:
        self._endpoint = endpoint
        self._api = api
        self._read_tls = read_tls
        self._tls = read_tls() if read_tls is not None else None
        self._numbers = itertools.count()
        self._pair = self._open()
        self._successor: ChannelPair | None = None
        self._reconnect_at_s = 0.0
        self._retired: dict[asyncio.Task[None], ChannelPair] = {}  # with the tasks that wait for their last calls
        self._is_closed = False

    def choose(self) -> Channel:
        """The channel for one call. UsageError: they are closed.

        A call that waits for the first state of a channel that checks health would fail unsent if no server is healthy.
        """
        if not self._is_closed:
            self._follow_certificates()
            self._adopt_successor()
        state = self._pair.healthy.channel.get_state(try_to_connect=True)
        return self._pair.healthy if state is grpc.ChannelConnectivity.READY else self._pair.any

    def reconnect(self) -> None:
        """Connects anew, to the current addresses of the name, because a server does not answer. The new channels are
        used as soon as they have a connection: if no server answers, calls stay where they are."""
        now_s = asyncio.get_running_loop().time()
        if self._is_closed or self._successor is not None or now_s < self._reconnect_at_s:
            return
        self._reconnect_at_s = now_s + RECONNECT_INTERVAL_S
        self._successor = self._open()
        self._successor.any.channel.get_state(try_to_connect=True)

    def _open(self) -> ChannelPair:
        number = next(self._numbers)
        return ChannelPair(
            Channel(self._endpoint, self._api, self._tls, number=number, checks_health=True),
            Channel(self._endpoint, self._api, self._tls, number=number, checks_health=False),
        )

    def _follow_certificates(self) -> None:
        """Replaces the channels if the certificates have changed."""
        if self._read_tls is None or (tls := self._read_tls()) is self._tls:
            return
        log.info("calls to %s use the changed certificates", self._endpoint)
        self._tls = tls
        self._replace(self._open())

    def _adopt_successor(self) -> None:
        """Uses the channels of `reconnect` once they have a connection."""
        successor = self._successor
        if successor is None:
            return
        if successor.any.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            log.warning("%s did not answer, calls use new connections", self._endpoint)
            self._successor = None
            self._replace(successor)

    def _replace(self, pair: ChannelPair) -> None:
        """Uses other channels for new calls. Running calls stay on the old ones."""
        old, self._pair = self._pair, pair
        task = asyncio.create_task(old.close(_RETIRED_GRACE_S), name=f"closing: {self._endpoint}")
        self._retired[task] = old
        task.add_done_callback(self._retired.pop)

    async def close(self) -> None:
        """Closes all channels. Running calls are cancelled."""
        self._is_closed = True
        waiting = tuple(self._retired)
        pairs = [*self._retired.values(), self._pair]
        if self._successor is not None:
            pairs.append(self._successor)
        for pair in pairs:
            await pair.close()
        if waiting:
            await asyncio.wait(waiting)


def options(api: Api, *, checks_health: bool) -> list[tuple[str, Any]]:
    """The options of a channel. It has no retry policy, but sends a request again that its server has not accepted
    (retrying.py). The health that counts is that of services that need no room, since a full server still reads and
    deletes."""
    service_config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if checks_health:
        service_config["healthCheckConfig"] = {"serviceName": api.name}
    return [
        ("grpc.service_config", orjson.dumps(service_config).decode()),
        ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A successor of a server is used within about a second, as by antiphon_http2.
        ("grpc.dns_min_time_between_resolutions_ms", 1_000),
        ("grpc.initial_reconnect_backoff_ms", 250),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    ]
