"""gRPC streams to all addresses of a name: round robin over the addresses that are connected.

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
from antiphon_http2.client.options import Options
from antiphon_http2.client.targets import read_target
from antiphon_http2.errors import ConnectionLost

log = logging.getLogger(__name__)

RESOLVE_INTERVAL_S = 10.0
RESOLVE_RETRY_S = 1.0  # while no address is connected
AVOID_S = 5.0  # for so long after a call without any message, other addresses are preferred


@dataclass(slots=True, eq=False)
class Peer:
    """One address and its connection. `users` is the number of calls that use the connection."""

    streams: GrpcStreams
    users: int = 0
    _avoided_s: float = -math.inf

    def avoid(self) -> None:
        """Makes calls prefer other addresses, for AVOID_S or until this one sends something."""
        self._avoided_s = time.monotonic()

    @property
    def is_avoided(self) -> bool:
        since_s = time.monotonic() - self._avoided_s
        return since_s < AVOID_S and self.streams.silence_s >= since_s


class BalancedStreams:
    """Chooses an address for each call. `read_tls` and `options` are passed to GrpcStreams. Use inside one event loop.
    ValueError: the endpoint is malformed."""

    def __init__(
        self,
        endpoint: str,
        *,
        read_tls: Callable[[], ssl.SSLContext] | None = None,
        options: Options = DEFAULT_OPTIONS,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = read_target(endpoint)
        self._now_s = now_s
        self._read_tls = read_tls
        self._options = options
        self._peers: dict[str, Peer] = {}
        self._leaving: set[Peer] = set()  # addresses that are no longer resolved, while they have calls
        self._turn = 0
        self._last_error = ""
        self._resolved_s = -math.inf
        self._resolving: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def choose(self) -> Peer:
        """Chooses the address for the next call. ConnectionLost: no address can be reached."""
        for _ in range(2):
            if self._is_closed:
                raise ConnectionLost("The client was closed.", is_unprocessed=True)
            self._resolve_if_due()
            known = set(self._peers)
            connected = await self._until_connected()
            if connected:
                self._turn += 1
                fit = [peer for peer in connected if not peer.is_avoided] or connected
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
        background."""
        attempts: set[asyncio.Task[None]] = set()
        for peer in self._peers.values():
            if not peer.streams.is_connected:
                attempts.add(self._spawn(self._connect(peer), "connecting"))
        while attempts and not self._peers_connected():
            _, attempts = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        return self._peers_connected()

    async def _connect(self, peer: Peer) -> None:
        try:
            await peer.streams.connect()
        except ConnectionLost as error:
            self._last_error = error.message

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"{what}: {self._target.authority}")
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
        loop, target = asyncio.get_running_loop(), self._target
        try:
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._last_error = f"{target.authority} cannot be looked up: {error}"
            log.warning(self._last_error)
        else:
            self._take({str(entry[4][0]) for entry in found})
        finally:
            self._resolved_s = self._now_s()
            self._resolving = None

    def _take(self, addresses: set[str]) -> None:
        for address in sorted(addresses - self._peers.keys()):
            target = replace(self._target, address=address)
            self._peers[address] = Peer(GrpcStreams(target, read_tls=self._read_tls, options=self._options))
        for address in self._peers.keys() - addresses:
            peer = self._peers.pop(address)
            self._leaving.add(peer)
            self._close_if_unused(peer)

    def _close_if_unused(self, peer: Peer) -> None:
        if peer in self._leaving and not peer.users and not self._is_closed:
            self._leaving.discard(peer)
            self._spawn(peer.streams.close(), "closing")
