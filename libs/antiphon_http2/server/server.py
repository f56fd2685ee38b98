"""The gRPC server: listens, limits the number of its connections, and drains them at a shutdown.

async def serve(call: ServerCall) -> None:
    call.authenticate()  # this server trusts every caller; without it a connection has 1,000 calls (strangers.py)
    if await call.next_size() is not None:
        call.send(await call.receive())

server = GrpcServer({"/package.Service/Method": serve}.get)
port = await server.listen("127.0.0.1", 0)
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import Callable

from antiphon_http2.limits import CONNECTION_ITEMS, HANDSHAKE_ITEMS
from antiphon_http2.server.answers import Status
from antiphon_http2.server.link import Route, ServerLink, Worth
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.read_turns import ReadTurns
from antiphon_http2.server.strangers import AddressBudgets
from antiphon_http2.statuses import UNAVAILABLE

DEFAULT_OPTIONS = ServerOptions()
_STOPPING = Status(UNAVAILABLE, "The server is stopping.")
_CLEANUP_S = 1.0  # for handlers that were cancelled
_LAST_BYTES_S = 1.0  # for clients to read the ends of their calls, after the grace of a drain


class GrpcServer:
    """A server for one event loop. `route` returns the handler of a method's path. `read_tls` returns the context for
    each new connection, so that changed certificates are used at once."""

    def __init__(
        self,
        route: Route,
        *,
        read_tls: Callable[[], ssl.SSLContext] | None = None,
        options: ServerOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._route = route
        self._read_tls = read_tls
        self._options = options
        self._listener: asyncio.Server | None = None
        self._turns = ReadTurns()
        self._addresses = AddressBudgets(time.monotonic)
        self._links: dict[ServerLink, None] = {}  # a set in the order of their age
        self._tasks: set[asyncio.Task[None]] = set()  # of handlers; the loop itself would not keep them
        self._closed = asyncio.Event()  # set and replaced when a connection has ended

    async def listen(self, host: str, port: int, *, shares_port: bool = False) -> int:
        """Listens and serves. With `shares_port` other processes of this user may listen on the same port. Returns the
        port, which the system chooses for port 0. OSError: it cannot listen."""
        loop = asyncio.get_running_loop()
        listening = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=self._options.connections_max,
            reuse_port=shares_port,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
        self._listener = await loop.create_server(lambda: self._new_link(loop), sock=listening)
        bound: int = listening.getsockname()[1]
        return bound

    async def drain(self, grace_s: float) -> None:
        """Takes no more calls, waits up to `grace_s` for those that run, and ends the others."""
        if self._listener is not None:
            self._listener.close()
        for link in tuple(self._links):
            link.shut_down()
        if not await self._wait_until_closed(grace_s):
            for link in tuple(self._links):
                link.end_calls(_STOPPING)
            await self._wait_until_closed(_LAST_BYTES_S)
        for link in tuple(self._links):
            link.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLEANUP_S)

    def _new_link(self, loop: asyncio.AbstractEventLoop) -> ServerLink:
        return ServerLink(
            loop,
            self._options,
            self._route,
            read_tls=self._read_tls,
            turns=self._turns,
            tasks=self._tasks,
            admit=self._admit,
            on_closed=self._drop,
            admit_caller=self._admit_caller,
        )

    def _admit(self, link: ServerLink) -> bool:
        """Counts a new connection. Returns False if the server has its maximum already, and none can give way."""
        has_room = len(self._links) < self._options.connections_max or self._make_room()
        if has_room:
            self._links[link] = None
            items = CONNECTION_ITEMS if self._read_tls is None else CONNECTION_ITEMS + HANDSHAKE_ITEMS
            link.connection.strangers.share(self._addresses.of(link.address), items)
        return has_room

    def _admit_caller(self, caller: str) -> bool:
        """Returns whether a caller may have another connection. Otherwise the holder of one token could keep all others
        out by calls that last."""
        return sum(link.caller == caller for link in self._links) < self._options.caller_connections_max

    def _make_room(self) -> bool:
        """Closes a connection without calls of known callers: the one of least worth of the address that has most of
        them, and of strangers' before others. Otherwise one client could keep all others out with connections that it
        does not use, or that only watch the health. Returns whether there was one."""
        worths = [(worth, link) for link in self._links if (worth := link.worth) is not None]
        has_strangers = any(not worth.is_known for worth, _ in worths)
        found: defaultdict[str, list[tuple[Worth, ServerLink]]] = defaultdict(list)
        for worth, link in worths:
            if not (has_strangers and worth.is_known):
                found[link.address].append((worth, link))
        if found:
            _, address = max((len(links), address) for address, links in found.items())
            min(found[address], key=lambda each: each[0])[1].give_way()
        return bool(found)

    def _drop(self, link: ServerLink) -> None:
        self._links.pop(link, None)
        closed, self._closed = self._closed, asyncio.Event()
        closed.set()

    async def _wait_until_closed(self, timeout_s: float) -> bool:
        """Waits until all connections are closed. Returns whether they are."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._links:
                    await self._closed.wait()
        except TimeoutError:
            return False
        return True
