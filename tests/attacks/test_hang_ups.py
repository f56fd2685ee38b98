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
from typing import Any

import pytest
import uvloop
from yarl import URL

from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import head, post
from tests.support.socket_client import connected
from tests.support.waiting import until

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
