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
from typing import cast

from aiohttp import web

from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

BACKLOG_CONNECTIONS = 1_024
"""Connections that the kernel holds until they are accepted. It drops the handshakes of others, and their clients try
again after 1 s: aiohttp's 128 would delay most of 512 clients that connect at once."""
ACCEPTED_AT_ONCE_MAX = 64
"""Per poll, and the rest at the next one: each takes 0.1 ms of the event loop."""
PAUSE_S = 1.0
"""How long nothing is accepted when the process has no file descriptors left."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts the connections of listening sockets until it is closed. Use inside one event loop."""

    def __init__(self, server: web.Server, sockets: Sequence[socket.socket], *, pause_s: float = PAUSE_S) -> None:
        """`server` makes the protocol of each connection. `sockets` are bound; from now on the listener owns them."""
        self.sockets = tuple(sockets)
        self._server = server
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
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
                connection, _address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(listening, error)
                    return
                continue  # accept(2): an error of the connection, which is gone
            opening = self._loop.create_task(self._open(connection), name="accepted connection")
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Leaves connections in the kernel's queue for a while: the loop would poll them without a pause."""
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


class ListeningSite(web.BaseSite):
    """The listener of one address, as aiohttp's runner wants it."""

    def __init__(self, runner: web.BaseRunner, host: str, port: int, *, shares_port: bool = False) -> None:
        """With `shares_port` other processes may listen on the same port."""
        super().__init__(runner)
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
        listener = Listener(server, await self._bound())
        self._server = cast(asyncio.AbstractServer, listener)  # aiohttp reads its sockets and closes it

    async def _bound(self) -> Sequence[socket.socket]:
        """A socket for each address of the host. The event loop binds them, but serves only what it listens on."""
        bound = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, self._host, self._port, reuse_port=self._shares_port or None, start_serving=False
        )
        sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in bound.sockets]
        bound.close()
        return sockets
