from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import web

from antiphon_edge.http.connection_table import ConnectionLimits, ConnectionTable
from antiphon_edge.http.listener import ACCEPTED_AT_ONCE_MAX, TOO_MANY, Listener, listen

HOST = "127.0.0.1"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on each kind of event loop."""

    def run_there(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main)

    return run_there


class FullTable(socket.socket):
    """A listening socket whose next `accept` finds no free file descriptor while `is_full`."""

    is_full = True

    def accept(self) -> tuple[socket.socket, Any]:
        if self.is_full:
            self.is_full = False
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


@asynccontextmanager
async def new_server() -> AsyncIterator[web.Server]:
    server = web.Server(answer)
    try:
        yield server
    finally:
        await server.shutdown()


@asynccontextmanager
async def listening(port: int = 0, **options: Any) -> AsyncIterator[tuple[web.Server, Any]]:
    """A server, and the address at which it listens."""
    async with new_server() as server:
        listener = await listen(server, HOST, port, **options)
        try:
            yield server, listener.address
        finally:
            listener.close()


def connected(address: Any, count: int) -> list[socket.socket]:
    """Connections that the kernel has made, whether they are accepted or not."""
    return [socket.create_connection(address[:2]) for _ in range(count)]


async def steps_to_accept(server: web.Server, count: int) -> int:
    """The number of event loop iterations in which connections were accepted, until there are `count`."""
    steps, seen = 0, 0
    while seen < count:
        await asyncio.sleep(0)
        now = len(server.connections)
        steps += now > seen
        seen = now
    return steps


async def text_of(connection: socket.socket) -> bytes:
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection)
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    text = await reader.read()
    writer.close()
    return text


def test_connections_that_wait_are_accepted_together(run: Run) -> None:
    """uvloop's own server accepts one connection per iteration of the event loop."""
    count = ACCEPTED_AT_ONCE_MAX + 20

    async def main() -> None:
        async with listening() as (server, address):
            clients = connected(address, count)
            assert await steps_to_accept(server, count) < count / 4
            for client in clients:
                client.close()

    run(main())


def test_an_accepted_connection_is_served_without_delay(run: Run) -> None:
    async def main() -> None:
        async with listening() as (server, address):
            (client,) = connected(address, 1)
            await steps_to_accept(server, 1)
            (protocol,) = server.connections
            assert protocol.transport is not None
            accepted = protocol.transport.get_extra_info("socket")
            # Without TCP_NODELAY a small event waits for the reader's delayed acknowledgement: 40 ms and more.
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert (await text_of(client)).endswith(b"here")

    run(main())


def test_port_of_another_process_raises_an_error(run: Run) -> None:
    async def main() -> None:
        async with listening() as (server, address):
            with pytest.raises(OSError, match="in use"):
                await listen(server, HOST, address[1])

    run(main())


def test_processes_with_shares_port_share_a_port(run: Run) -> None:
    async def main() -> None:
        async with (
            listening(shares_port=True) as (_, address),
            listening(address[1], shares_port=True) as (_, other_address),
        ):
            assert address == other_address

    run(main())


def test_connections_wait_while_no_file_descriptor_is_left(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with new_server() as server:
            full = FullTable()
            full.bind((HOST, 0))
            listener = Listener(server, [full], pause_s=0)
            (client,) = connected(listener.address, 1)
            assert (await text_of(client)).endswith(b"here")
            listener.close()

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "no connection is accepted" in caplog.text


def test_a_listener_that_pauses_can_be_closed(run: Run) -> None:
    async def main() -> None:
        async with new_server() as server:
            full = FullTable()
            full.bind((HOST, 0))
            listener = Listener(server, [full], pause_s=0)
            (client,) = connected(listener.address, 1)
            while full.is_full:
                await asyncio.sleep(0)
            listener.close()
            await asyncio.sleep(0.01)  # its timer would watch the closed socket
            assert not server.connections
            client.close()

    run(main())


class Full(ConnectionTable):
    """A connection table without room."""

    def __init__(self) -> None:
        super().__init__(ConnectionLimits(1, 1), now_s=lambda: 0.0)

    def make_room(self, peer: str, *, arriving: Collection[str] = ()) -> bool:
        return False


def test_connection_without_room_is_rejected_and_closed(run: Run) -> None:
    async def main() -> None:
        async with listening(table=Full()) as (_, address):
            reader, writer = await asyncio.open_connection(*address[:2])
            assert await reader.read() == TOO_MANY
            writer.close()

    run(main())


def test_a_burst_of_one_peer_is_held_to_its_limit(run: Run) -> None:
    async def main() -> None:
        table = ConnectionTable(ConnectionLimits(total=20, per_peer=2), now_s=lambda: 0.0)
        async with listening(table=table) as (server, address):
            clients = connected(address, 5)
            await steps_to_accept(server, 2)
            texts = [await text_of(client) for client in clients]
            assert [text.endswith(b"here") for text in texts] == [True, True, False, False, False]
            assert texts[2:] == [TOO_MANY] * 3

    run(main())
