"""gRPC calls to all addresses of a name: round robin over the addresses that are connected.

With `health_service`, addresses whose server reports that it serves are preferred (health_watch.py). If there is none,
calls are sent all the same: the server answers with its reason, or serves.

The first call resolves the name. Later calls resolve it again after RESOLVE_INTERVAL_S, or after RESOLVE_RETRY_S if no
address is connected. A new address gets calls once it is connected; calls only wait for a connection if no other
address has one. An address that is no longer resolved gets no new calls, and its connection is closed after its last
call. If resolving fails, the known addresses stay.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from antiphon_http2.client.client import DEFAULT_OPTIONS, GrpcStreams
from antiphon_http2.client.health_watch import watch_health
from antiphon_http2.client.options import Options
from antiphon_http2.client.targets import Target, read_targets
from antiphon_http2.errors import ConnectionLost

log = logging.getLogger(__name__)

RESOLVE_INTERVAL_S = 10.0
RESOLVE_RETRY_S = 1.0  # while no address is connected
RECONNECT_INTERVAL_S = 5.0
AVOID_S = 5.0  # for so long after a call without any message, other addresses are preferred


@dataclass(slots=True, eq=False)
class Peer:
    """One address and its connection. `users` is the number of calls that use the connection."""

    target: Target
    streams: GrpcStreams
    users: int = 0
    is_serving: bool = False  # by its last report
    connecting: asyncio.Task[None] | None = None
    watching: asyncio.Task[None] | None = None
    _avoided_s: float = -math.inf
    _avoided_for_s: float = AVOID_S

    def avoid(self, for_s: float = AVOID_S) -> None:
        """Makes calls prefer other addresses, for `for_s` or until this one sends something."""
        self._avoided_s, self._avoided_for_s = time.monotonic(), for_s

    @property
    def is_avoided(self) -> bool:
        since_s = time.monotonic() - self._avoided_s
        return since_s < self._avoided_for_s and self.streams.silence_s >= since_s

    def report(self, is_serving: bool) -> None:
        """Sets what the server says of its health."""
        self.is_serving = is_serving

    def unwatch(self) -> None:
        """Ends the watch, which would keep a connection open that the server ends."""
        self.is_serving = False
        if self.watching is not None:
            self.watching.cancel()
            self.watching = None


class BalancedStreams:
    """Chooses an address for each call. `read_tls` and `options` are passed to GrpcStreams. `health_service` is the
    service whose health is watched; "" is none. Use inside one event loop. ValueError: the endpoint is malformed."""

    def __init__(
        self,
        endpoint: str,
        *,
        read_tls: Callable[[], ssl.SSLContext] | None = None,
        options: Options = DEFAULT_OPTIONS,
        health_service: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._targets = read_targets(endpoint)
        self._health_service = health_service
        self._now_s = now_s
        self._read_tls = read_tls
        self._options = options
        self._peers: dict[Target, Peer] = {}
        self._leaving: set[Peer] = set()  # connections of no address in `_peers`, until they are closed
        self._leave_at_s = -math.inf
        self._turn = 0
        self._last_error = ""
        self._resolved_s = -math.inf
        self._resolving: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def choose(self) -> Peer:
        """Chooses the address for the next call. ConnectionLost: no address can be reached."""
        if self._read_tls is not None:
            self._read_tls()  # so that files that became unusable are reported now, not at the next handshake
        for _ in range(2):
            if self._is_closed:
                raise ConnectionLost("The client was closed.", is_unprocessed=True)
            self._resolve_if_due()
            known = set(self._peers)
            connected = await self._until_connected()
            if connected:
                self._turn += 1
                serving = [peer for peer in connected if peer.is_serving] or connected
                fit = [peer for peer in serving if not peer.is_avoided] or serving
                return fit[self._turn % len(fit)]
            if self._resolving is not None:
                await asyncio.wait((self._resolving,))
            if known >= self._peers.keys():
                break
        raise ConnectionLost(self._last_error, is_unprocessed=True)

    @contextmanager
    def use(self, peer: Peer) -> Iterator[GrpcStreams]:
        """Keeps the connection to `peer` open while the context is open."""
        peer.users += 1
        try:
            yield peer.streams
        finally:
            peer.users -= 1
            self._close_if_unused(peer)

    def leave_silent(self, peer: Peer) -> None:
        """Looks for another way to a server that does not answer: prefers other addresses until it sends something,
        looks the name up again, and connects to the same address anew, for behind it may be another server. Calls use
        the new connection once it is there. A server that is only slow gets one in RECONNECT_INTERVAL_S."""
        now_s = self._now_s()
        if self._is_closed or self._peers.get(peer.target) is not peer or now_s < self._leave_at_s:
            return
        self._leave_at_s = now_s + RECONNECT_INTERVAL_S
        peer.avoid(math.inf)
        self._resolved_s = -math.inf
        self._resolve_if_due()
        self._spawn(self._replace(peer), "connecting anew")

    async def close(self) -> None:
        """Closes all connections. Open calls fail with ConnectionLost."""
        self._is_closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for peer in (*self._peers.values(), *self._leaving):
            await peer.streams.close()

    def _peers_connected(self) -> Sequence[Peer]:
        return [peer for peer in self._peers.values() if peer.streams.is_connected]

    async def _until_connected(self) -> Sequence[Peer]:
        """The connected addresses. Waits for the first connection if there is none, and lets the others connect in the
        background, each after its backoff."""
        attempts: set[asyncio.Task[None]] = set()
        for peer in self._peers.values():
            if peer.streams.is_connected:
                continue
            if peer.connecting is None and peer.streams.can_connect:
                peer.connecting = self._spawn(self._connect(peer), "connecting")
            if peer.connecting is not None:
                attempts.add(peer.connecting)
        while attempts and not self._peers_connected():
            _, attempts = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        return self._peers_connected()

    async def _connect(self, peer: Peer) -> None:
        peer.unwatch()
        try:
            await peer.streams.connect()
        except ConnectionLost as error:
            self._last_error = error.message
        else:
            if self._health_service:
                watch = watch_health(peer.streams, self._health_service, peer.report)
                peer.watching = self._spawn(watch, "watching health")
        finally:
            peer.connecting = None

    async def _replace(self, old: Peer) -> None:
        """Uses another connection to an address, if there can be one."""
        peer = self._new_peer(old.target)
        self._leaving.add(peer)  # until it is used, so that `close` finds it
        await self._connect(peer)
        if peer.streams.is_connected and self._peers.get(old.target) is old:
            log.warning("%s did not answer, calls use a new connection", self._endpoint)
            self._leaving.discard(peer)
            self._peers[old.target] = peer
            self._leave(old)
        else:
            self._leave(peer)

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"{what}: {self._endpoint}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- addresses ----

    def _resolve_if_due(self) -> None:
        pause_s = RESOLVE_INTERVAL_S if self._peers_connected() else RESOLVE_RETRY_S
        since_s = self._now_s() - self._resolved_s
        if self._resolving is None and since_s >= pause_s:
            self._resolving = self._spawn(self._resolve(), "looking up addresses")

    async def _resolve(self) -> None:
        loop, found = asyncio.get_running_loop(), set()
        try:
            for target in self._targets:
                entries = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
                found |= {replace(target, address=str(entry[4][0])) for entry in entries}
        except OSError as error:
            self._last_error = f"{self._endpoint} cannot be looked up: {error}"
            log.warning(self._last_error)
        else:
            self._take(found)
        finally:
            self._resolved_s = self._now_s()
            self._resolving = None

    def _take(self, targets: set[Target]) -> None:
        for target in sorted(targets - self._peers.keys(), key=lambda target: (target.address, target.port)):
            self._peers[target] = self._new_peer(target)
        for target in self._peers.keys() - targets:
            self._leave(self._peers.pop(target))

    def _new_peer(self, target: Target) -> Peer:
        return Peer(target, GrpcStreams(target, read_tls=self._read_tls, options=self._options))

    def _leave(self, peer: Peer) -> None:
        peer.unwatch()
        self._leaving.add(peer)
        self._close_if_unused(peer)

    def _close_if_unused(self, peer: Peer) -> None:
        if peer in self._leaving and not peer.users and not self._is_closed:
            self._spawn(self._close(peer), "closing")

    async def _close(self, peer: Peer) -> None:
        await peer.streams.close()
        self._leaving.discard(peer)
