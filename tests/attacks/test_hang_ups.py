"""Clients that disconnect while the server does not read from them: behind their turn they sent more than the server
takes at once. Their models ran on, for as long as their turns took."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest
import uvloop
from hyperframe.frame import SettingsFrame
from yarl import URL

from antiphon_http2.server.call import ServerCall
from antiphon_http2.server.server import GrpcServer
from tests.support.edge import RunningEdge, running_edge
from tests.support.http2_peer import Http2Peer, message
from tests.support.raw_http import head, post
from tests.support.socket_client import connected
from tests.support.waiting import WAIT_MAX_S, until

CREATE = {"model": "m", "input": "hi", "store": False}
TURN = post(json.dumps(CREATE).encode(), b"Content-Type: application/json")
STREAM = post(json.dumps(CREATE | {"stream": True}).encode(), b"Content-Type: application/json")
TURNS = {"a turn": TURN, "a stream": STREAM}
GET = head(b"GET /v1/version")
UNFINISHED = b"GET /" + b"a" * 300_000
BEHIND = {"40 GETs": GET * 40, "300 turns": TURN * 300, "an unfinished head": UNFINISHED, "8 MB": TURN * 50_000}
RESET = struct.pack("ii", 1, 0)
Run = Callable[[Coroutine[Any, Any, None]], None]


async def assert_model_stops(edge: RunningEdge) -> None:
    await asyncio.wait_for(edge.translator.closed.wait(), 30)
    assert len(edge.translator.turns) == 1  # those behind it do not run


async def hang_up_behind(sent: bytes, *, resets: bool) -> None:
    async with running_edge() as edge:
        edge.translator.hang = True
        address = URL(edge.server.url)
        client = socket.create_connection((address.host or "", address.port or 0))
        client.setblocking(False)
        sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(client, sent))
        await until(lambda: bool(edge.translator.turns), "the turn")
        with suppress(TimeoutError):  # the server reads less than all of it
            await asyncio.wait_for(sending, 0.2)
        if resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        await assert_model_stops(edge)


async def hang_up_in_every_way() -> None:
    """Runs all cases at once, because the server of each waits for a second before it reads on."""
    cases = [*itertools.product(TURNS, BEHIND, (False, True))]
    ended = await asyncio.gather(
        *(hang_up_behind(TURNS[turn] + BEHIND[behind], resets=resets) for turn, behind, resets in cases),
        return_exceptions=True,
    )
    assert not {case: repr(error) for case, error in zip(cases, ended, strict=True) if error}


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_model_stops_when_a_client_hangs_up_with_unread_requests(run: Run) -> None:
    run(hang_up_in_every_way())


async def test_model_stops_when_a_websocket_hangs_up_with_unread_messages() -> None:
    async with running_edge() as edge:
        edge.translator.hang = True
        async with connected(edge) as client:
            await client.send()
            await until(lambda: bool(edge.translator.turns), "the turn")
            for _ in range(300):
                await client.send(input="x" * 1_000)
            client.transport.abort()
            await assert_model_stops(edge)


async def test_answers_that_are_ready_reach_a_client_that_has_closed_its_sending_side() -> None:
    async with running_edge() as edge:
        address = URL(edge.server.url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(GET * 40)
        writer.write_eof()
        answers = await asyncio.wait_for(reader.read(), 30)
        assert answers.startswith(b"HTTP/1.1 200 OK")
        writer.close()


async def hang_up_with_unread_answers(*, resets: bool) -> None:
    """A client does not read a large answer, and sends pings until the server stops reading from it."""
    ended = asyncio.Event()

    async def serve(call: ServerCall) -> None:
        call.authenticate()
        try:
            await call.next_size()
            call.send(b"x" * 15 * 2**20)
            await asyncio.Event().wait()
        finally:
            ended.set()

    server, peer, loop = GrpcServer(lambda _path: serve), Http2Peer(), asyncio.get_running_loop()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", await server.listen("127.0.0.1", 0)))
    client.setblocking(False)
    wide = peer.hello({SettingsFrame.INITIAL_WINDOW_SIZE: 2**24}) + peer.credit(0, 2**24)
    await loop.sock_sendall(client, wide + peer.request(1) + peer.data(1, message(b""), ends=True))
    await until(lambda: bool(server._links) and next(iter(server._links))._full_bytes is not None, "the full socket")
    (link,) = server._links
    transport = cast(asyncio.Transport, link._transport)
    while transport.is_reading():
        assert not ended.is_set()
        with suppress(BlockingIOError):
            client.send(peer.ping() * 100)
        await asyncio.sleep(0.01)
    if resets:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()
    await asyncio.wait_for(ended.wait(), WAIT_MAX_S)
    await server.drain(0)


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_call_ends_when_its_client_hangs_up_while_it_is_not_read(run: Run, resets: bool) -> None:
    run(hang_up_with_unread_answers(resets=resets))
