from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from yarl import URL

from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import HOST, RawAnswer, head, post, read

LIMIT_S = 0.3
BODY = b'{"model": "m", "input": "hi"}'
NEXT_HEAD = b"GET /v1/ver"
REQUESTS = {
    "no body": [head(b"GET /v1/version")],
    "a body in one read": [post(BODY)],
    "a body with blank lines": [post(BODY.replace(b" ", b"\r\n\r\n"))],
    "a body that ends in a later read": [post(BODY)[:-9], BODY[-9:]],
}
Pieces = list[bytes]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(edge: RunningEdge) -> AsyncIterator[Connection]:
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()


async def answer_to(edge: RunningEdge, *pieces: bytes) -> RawAnswer:
    async with connected(edge) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(LIMIT_S / 2)
        return await read(reader)


@pytest.mark.parametrize("said", [b"", b"POST /v1/resp", b"POST /v1/responses HTTP/1.1\r\n" + HOST])
async def test_connection_that_sends_no_complete_request_times_out(said: bytes) -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        writer.write(said)
        assert await reader.read() == b""


async def test_head_that_is_sent_byte_by_byte_times_out() -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        writer.write(b"GET /v1/models HTTP/1.1\r\nx-what: ")
        closed = asyncio.create_task(reader.read())
        while not closed.done():
            writer.write(b"x")
            await asyncio.sleep(LIMIT_S / 10)
        with suppress(ConnectionResetError):  # if a byte was on its way
            assert await closed == b""


@pytest.mark.parametrize("said", [b"", b'{"model": '])
@pytest.mark.parametrize("framing", [b"Content-Length: 29", b"Transfer-Encoding: chunked"])
async def test_body_that_does_not_come_times_out_with_408(said: bytes, framing: bytes) -> None:
    if framing.startswith(b"T") and said:
        said = b"%x\r\n%b\r\n" % (len(said), said)
    async with running_edge(read_timeout_s=LIMIT_S) as edge:
        answer = await answer_to(edge, head(b"POST /v1/responses", framing), said)
        assert (answer.status, answer.error["code"], answer.ended) == (408, "request_timeout", True)
        assert edge.translator.turns == []


async def test_a_body_that_is_slow_but_comes_is_read() -> None:
    """The body takes longer than the timeout, each piece less."""
    async with running_edge(read_timeout_s=30) as edge:
        answer = await answer_to(edge, post(BODY)[:-9], BODY[-9:-6], BODY[-6:-3], BODY[-3:])
        assert answer.status == 200


async def test_missing_body_behind_a_running_request_times_out_in_its_turn() -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        asked, go_on = edge.hold_models()
        writer.write(head(b"GET /v1/models") + post(BODY)[:-9])
        await asked.wait()
        await asyncio.sleep(3 * LIMIT_S)
        go_on.set()
        assert [(await read(reader)).status for _ in range(2)] == [200, 408]


async def send(writer: asyncio.StreamWriter, pieces: Pieces) -> None:
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(LIMIT_S / 10)


@pytest.mark.parametrize("pieces", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_head_that_begins_in_the_read_of_a_request_times_out(pieces: Pieces) -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        await send(writer, [*pieces[:-1], pieces[-1] + NEXT_HEAD])
        assert (await read(reader)).status == 200
        assert await reader.read() == b""


@pytest.mark.parametrize("pieces", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_connection_between_two_requests_has_no_timeout(pieces: Pieces) -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        for pause_s in (0, 4 * LIMIT_S):
            await asyncio.sleep(pause_s)
            await send(writer, pieces)
            assert (await read(reader)).status == 200


@pytest.mark.parametrize("headers", [b"Transfer-Encoding: chunked", b"Content-Length: 1"])
async def test_a_head_that_begins_behind_a_request_that_runs_times_out_after_the_answer(headers: bytes) -> None:
    body = b"1\r\nx\r\n0\r\n\r\n" if headers.startswith(b"T") else b"x"
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        asked, go_on = edge.hold_models()
        writer.write(head(b"GET /v1/models", headers) + body + NEXT_HEAD)
        await asked.wait()
        await asyncio.sleep(4 * LIMIT_S)
        go_on.set()
        assert (await read(reader)).status == 200
        assert await reader.read() == b""


async def test_a_request_with_a_body_in_chunks_may_run_for_longer_than_the_timeout() -> None:
    async with running_edge(read_timeout_s=LIMIT_S) as edge, connected(edge) as (reader, writer):
        asked, go_on = edge.hold_models()
        writer.write(head(b"GET /v1/models", b"Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n\r\n")
        await asked.wait()
        await asyncio.sleep(4 * LIMIT_S)
        go_on.set()
        assert (await read(reader)).status == 200


async def test_a_websocket_may_be_silent() -> None:
    async with (
        running_edge(read_timeout_s=LIMIT_S) as edge,
        edge.http.session.ws_connect(f"{edge.server.url}/v1/responses") as socket,
    ):
        for pause_s in (0, 4 * LIMIT_S):
            await asyncio.sleep(pause_s)
            await socket.send_json({"type": "response.create", "model": "m", "input": "hi"})
            while (await socket.receive_json(timeout=60))["type"] != "response.completed":
                pass
