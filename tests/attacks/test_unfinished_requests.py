"""Attack 6: heads, bodies and messages that never end. An unauthenticated caller holds little memory, a tenant holds
its share, and another tenant's request is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType
from yarl import URL

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX, HEADS_BYTES_MAX
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_edge.routes import bodies
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import RawAnswer, head, read
from tests.support.waiting import WAIT_MAX_S, until

MIB = 2**20
SHARE = 12 * MIB
ATTACKER, VICTIM = b"x-tenant-id: acme", {TENANT_HEADER: "globex"}
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge(tenants=True, bodies_bytes_per_tenant=SHARE, bodies_bytes_max=2 * SHARE) as running:
        yield running


@asynccontextmanager
async def connections(edge: RunningEdge, count: int) -> AsyncIterator[Sequence[Stream]]:
    url = URL(edge.http.url)
    opened = [await asyncio.open_connection(url.host, url.port) for _ in range(count)]
    try:
        yield opened
    finally:
        for _reader, writer in opened:
            writer.close()


async def refused(stream: Stream, said: bytes) -> RawAnswer:
    """Sends `said` and reads the answer."""
    reader, writer = stream
    writer.write(said)
    async with asyncio.timeout(WAIT_MAX_S):
        return await read(reader)


async def serves_the_victim(edge: RunningEdge) -> bool:
    answer = await edge.ask("POST", "/v1/responses", {"model": "m", "input": "hi"}, headers=VICTIM)
    return answer.status == 200


def budget_of(edge: RunningEdge) -> ByteBudget:
    return edge.server.app[bodies._BUDGET]


def pieces_of_a_head(size: int) -> bytes:
    line = b"X-Filler: " + b"a" * 4_000 + b"\r\n"
    return b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + line * (size // len(line))


async def test_an_endless_request_head_is_rejected(edge: RunningEdge) -> None:
    async with connections(edge, 1) as (stream,):
        answer = await refused(stream, pieces_of_a_head(HEAD_BYTES_MAX + 10_000))
        assert (answer.status, answer.error["code"]) == (431, "header_too_large")
        assert await serves_the_victim(edge)


async def test_request_heads_above_the_limit_of_one_address_are_rejected(edge: RunningEdge) -> None:
    """Each head is within the limit of a single head."""
    size = HEAD_BYTES_MAX // 2
    share = HEADS_BYTES_MAX // 8
    async with connections(edge, share // size + 4) as opened:
        reading = [asyncio.ensure_future(refused(stream, pieces_of_a_head(size))) for stream in opened]
        done, _ = await asyncio.wait(reading, timeout=WAIT_MAX_S, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().status for task in done} == {431}
        assert await serves_the_victim(edge)
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)


async def test_unfinished_bodies_above_their_tenants_share_are_rejected(edge: RunningEdge) -> None:
    size = 9 * MIB
    said = head(b"POST /v1/responses", b"Content-Length: %d" % size, ATTACKER) + b" " * (size - 1)
    async with connections(edge, 3) as opened:
        reading = [asyncio.ensure_future(refused(stream, said)) for stream in opened]
        done, _ = await asyncio.wait(reading, timeout=WAIT_MAX_S, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().status for task in done} == {429}
        assert budget_of(edge).held_bytes <= SHARE
        assert await serves_the_victim(edge)
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    await until(lambda: budget_of(edge).held_bytes == 0, "all of it is given back")


async def test_unfinished_websocket_messages_above_their_tenants_share_are_rejected(edge: RunningEdge) -> None:
    size = 9 * MIB
    upgrade = (b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Version: 13")
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    opening = head(b"GET /v1/responses", *upgrade, key, ATTACKER)
    frame = b"\x81\xff" + size.to_bytes(8) + bytes(4) + b" " * (size - 1)
    async with connections(edge, 3) as opened:
        for reader, writer in opened:
            writer.write(opening)
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        for _reader, writer in opened:
            writer.write(frame)
        closing = [asyncio.ensure_future(reader.readexactly(4)) for reader, _writer in opened]
        done, _ = await asyncio.wait(closing, timeout=WAIT_MAX_S, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result()[2:] for task in done} == {(1013).to_bytes(2)}
        assert budget_of(edge).held_bytes <= SHARE
        assert await serves_the_victim(edge)
        for task in closing:
            task.cancel()
        await asyncio.wait(closing)
    await until(lambda: budget_of(edge).held_bytes == 0, "all of it is given back")


async def test_queued_websocket_messages_above_their_tenants_share_are_rejected(edge: RunningEdge) -> None:
    """The messages wait behind responses that never end, each on its own connection."""
    edge.translator.hang = True
    text = '{"type":"response.create","model":"m","input":"' + "x" * 7 * MIB + '"}'
    url, headers = edge.http.url + "/v1/responses", {TENANT_HEADER: "acme"}
    async with AsyncExitStack() as stack:

        async def waiting() -> aiohttp.ClientWebSocketResponse:
            connect = edge.http.session.ws_connect(url, headers=headers, max_msg_size=0)
            opened = await stack.enter_async_context(connect)
            await opened.send_str('{"type":"response.create","model":"m","input":"x","store":false}')
            await opened.send_str(text)
            return opened

        await waiting()
        await until(lambda: 7 * MIB < budget_of(edge).held_bytes < SHARE, "the first one waits")
        socket = await waiting()
        async with asyncio.timeout(WAIT_MAX_S):
            while (event := await socket.receive()).type is WSMsgType.TEXT and event.json()["type"] != "error":
                pass
        assert event.type is WSMsgType.CLOSE or event.json()["status"] == 429
        assert budget_of(edge).held_bytes <= SHARE
        edge.translator.hang = False
        assert await serves_the_victim(edge)
    await until(lambda: budget_of(edge).held_bytes == 0, "all of it is given back")


async def test_idle_connections_above_the_limit_of_one_address_are_closed() -> None:
    """Idle connections are closed to make room for new ones."""
    async with running_edge(connections_max=100, connections_per_peer=20) as edge, connections(edge, 60):
        assert await serves_the_victim_without_a_name(edge)
        assert len(edge.server._connections) <= 20


async def serves_the_victim_without_a_name(edge: RunningEdge) -> bool:
    return (await edge.create()).status == 200
