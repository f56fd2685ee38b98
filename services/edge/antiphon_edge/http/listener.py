"""The listening sockets of the edge. Every poll of the event loop accepts all connections that wait.

libuv accepts one connection per poll (libuv/libuv#3696), and uvloop's own servers do the same. A saturated loop polls
about 20 times a second: with 512 streams at 50 tokens/s and 128 new connections a second, connections waited up to 6 s
in the kernel's queue, while the streams that were accepted got their tokens in time. asyncio's own loop accepts in
batches; this module does that on both.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from aiohttp import web

from antiphon_core.telemetry import remedies
from antiphon_edge.http.connection_table import ConnectionTable
from antiphon_edge.http.http_errors import raw_refusal

log = logging.getLogger(__name__)

BACKLOG_CONNECTIONS = 1_024
"""Connections that the kernel holds until they are accepted. It drops the handshakes of others, and their clients try
again after 1 s: aiohttp's 128 would delay most of 512 clients that connect at once."""
ACCEPTED_AT_ONCE_MAX = 64
"""Per poll, and the rest at the next one: each takes 0.1 ms of the event loop."""
PAUSE_S = 1.0
"""How long nothing is accepted when the process has no file descriptors left."""
TOO_MANY = raw_refusal(503, "too_many_connections", "The server has as many connections as it takes. Try again later.")
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts the connections of listening sockets until it is closed. Use inside one event loop."""

    def __init__(
        self,
        server: web.Server,
        sockets: Sequence[socket.socket],
        *,
        table: ConnectionTable | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        """`server` makes the protocol of each connection. `sockets` are bound; from now on the listener owns them.
        `table` says whether there is room for one more."""
        self._table = table
        self.sockets = tuple(sockets)
        self._server = server
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Task[None], str] = {}
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        for each in self.sockets:
            each.setblocking(False)
            each.listen(BACKLOG_CONNECTIONS)
            self._watch(each)

    def close(self) -> None:
        """Stops listening. Connections that were accepted go on."""
        for pause in self._pauses.values():
            pause.cancel()
        for each in self.sockets:
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
                continue  # accept(2): an error of the connection, which is gone
            if not self._admit(connection, str(address[0])):
                return

    def _admit(self, connection: socket.socket, peer: str) -> bool:
        """Opens the connection, or refuses it. Whether more can be accepted at once: another one that was closed for
        this one gives its descriptor back when the event loop goes on."""
        open_before = len(self._table) if self._table is not None else 0
        if self._table is not None and not self._table.make_room(peer, arriving=self._opening.values()):
            _refuse(connection)
            return True
        opening = self._loop.create_task(self._open(connection), name="accepted connection")
        self._opening[opening] = peer
        opening.add_done_callback(self._opening.pop)
        return self._table is None or len(self._table) >= open_before

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Leaves connections in the kernel's queue for a while: the loop would poll them without a pause. An idle
        connection is closed, so that there is a descriptor then."""
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


def _refuse(connection: socket.socket) -> None:
    """Says why, as far as the socket takes it at once, and closes."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(TOO_MANY)
        connection.shutdown(socket.SHUT_WR)


class ListeningSite(web.BaseSite):
    """The listener of one address, as aiohttp's runner wants it."""

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        *,
        table: ConnectionTable | None = None,
        shares_port: bool = False,
    ) -> None:
        """With `shares_port` other processes may listen on the same port."""
        super().__init__(runner)
        self._table = table
        self._host = host
        self._port = port
        self._shares_port = shares_port

    @property
    def name(self) -> str:
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listens. OSError: the address cannot be bound."""
        await super().start()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner was not set up")
        listener = Listener(server, await self._bound(), table=self._table)
        self._server = cast(asyncio.AbstractServer, listener)  # aiohttp reads its sockets and closes it

    async def _bound(self) -> Sequence[socket.socket]:
        """A socket for each address of the host. The event loop binds them, but serves only what it listens on."""
        bound = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, self._host, self._port, reuse_port=self._shares_port or None, start_serving=False
        )
        sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in bound.sockets]
        bound.close()
        return sockets
