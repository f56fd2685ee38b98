"""The listening sockets of the edge. Each poll of the event loop accepts up to 64 connections.

libuv accepts one connection per poll (libuv/libuv#3696), and so do uvloop's own servers. A saturated loop polls about
20 times a second: with 512 streams at 50 tokens/s and 128 new connections a second, connections waited up to 6 s in the
kernel's queue, while open streams got their tokens in time. asyncio's own loop accepts in batches; this module does so
on both loops.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiohttp import web

from antiphon_core.telemetry import remedies
from antiphon_edge.http.connection_table import ConnectionTable
from antiphon_edge.http.http_errors import raw_rejection

log = logging.getLogger(__name__)

BACKLOG_CONNECTIONS = 1_024
"""Connections that the kernel queues until they are accepted. It drops the handshakes of further clients, which retry
after 1 s: aiohttp's 128 would delay most of 512 clients that connect at once."""
ACCEPTED_AT_ONCE_MAX = 64
"""Connections per poll; the rest wait for the next poll. Each takes 0.1 ms of the event loop."""
PAUSE_S = 1.0
"""How long the listener accepts nothing after the process ran out of file descriptors."""
TOO_MANY = raw_rejection(503, "too_many_connections", "The server has too many connections. Try again later.")
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts connections on listening sockets until `close`. Make it within the event loop."""

    def __init__(
        self,
        server: web.Server,
        sockets: Sequence[socket.socket],
        *,
        table: ConnectionTable | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        """`server` makes the protocol of each connection. `sockets` are bound; the listener closes them.
        `table` limits the number of connections; None for no limit."""
        self._table = table
        self.sockets: Sequence[socket.socket] = tuple(sockets)
        self._server = server
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Task[None], str] = {}
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        for each in self.sockets:
            each.setblocking(False)
            each.listen(BACKLOG_CONNECTIONS)
            self._watch(each)

    @property
    def address(self) -> Any:
        """The address of the first socket, as the socket gives it."""
        return self.sockets[0].getsockname()

    def close(self) -> None:
        """Stops listening. Accepted connections stay open. Further calls have no effect."""
        for pause in self._pauses.values():
            pause.cancel()
        sockets, self.sockets = self.sockets, ()
        for each in sockets:
            self._loop.remove_reader(each)
            each.close()

    def _watch(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                connection, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(listening, error)
                    return
                continue  # accept(2): the connection failed before it was accepted
            if not self._admit(connection, str(address[0])):
                return

    def _admit(self, connection: socket.socket, peer: str) -> bool:
        """Opens the connection, or rejects it. Returns False when an idle connection was closed for it: the descriptor
        of that one is free only after the event loop has run, so no more connections are accepted in this poll."""
        open_before = len(self._table) if self._table is not None else 0
        if self._table is not None and not self._table.make_room(peer, arriving=self._opening.values()):
            _reject(connection)
            return True
        opening = self._loop.create_task(self._open(connection), name="accepted connection")
        self._opening[opening] = peer
        opening.add_done_callback(self._opening.pop)
        return self._table is None or len(self._table) >= open_before

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Stops accepting for a while: a loop that polls the socket without a free descriptor would spin. Closes an
        idle connection, so that a descriptor is free afterwards."""
        if self._table is not None:
            self._table.shed_one()
        log.error("no connection is accepted for %g s: %s", self._pause_s, error, extra=remedies.RAISE_FILE_LIMIT)
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(self._pause_s, self._watch, listening)

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._server, connection)
        except OSError as error:
            log.info("a connection was lost when it was accepted: %s", error)
            connection.close()


def _reject(connection: socket.socket) -> None:
    """Sends the error if the socket takes it without blocking, and closes the connection."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(TOO_MANY)
        connection.shutdown(socket.SHUT_WR)


async def listen(
    server: web.Server, host: str, port: int, *, table: ConnectionTable | None = None, shares_port: bool = False
) -> Listener:
    """Listens on each address of the host. With `shares_port` other processes may listen on the same port. OSError: an
    address cannot be bound."""
    return Listener(server, await _bind(host, port, shares_port=shares_port), table=table)


async def _bind(host: str, port: int, *, shares_port: bool) -> Sequence[socket.socket]:
    """A bound socket for each address of the host. A server of asyncio binds them, and is closed without serving."""
    bound = await asyncio.get_running_loop().create_server(
        asyncio.Protocol, host, port, reuse_port=shares_port or None, start_serving=False
    )
    sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in bound.sockets]
    bound.close()
    return sockets
