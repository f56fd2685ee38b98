"""Many small pieces: WebSocket messages, frames and chunks with a byte each. A caller makes the event loop handle a few
kilobytes of them at a time, so that the requests of others are served in between, and is disconnected at a limit."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import http
from aiohttp._websocket import helpers
from yarl import URL

from antiphon_core.byte_budget import ByteBudget, Excess
from antiphon_core.limits import BODY_BYTES_MAX, CHUNK_FRAMING_BYTES_MAX
from antiphon_edge.http import socket_frames
from antiphon_edge.http.connections import StreamConnection
from antiphon_edge.http.paced_reads import FRAME_BYTES, FRAMED_BYTES
from antiphon_edge.http.socket_frames import CheckedFrames
from antiphon_edge.websocket.connection import TOO_MANY_USELESS, USELESS_RATE
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import RawAnswer, head, read
from tests.support.waiting import WAIT_MAX_S

UPGRADE = head(
    b"GET /v1/responses",
    b"Connection: upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)
TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
BEGINNING, CONTINUATION = 0x01, 0x00
POLICY_VIOLATION = 1008
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running


class Heartbeat:
    """Counts the iterations of the event loop: those in which another request could be served."""

    def __init__(self) -> None:
        self.turns = 0

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1


@asynccontextmanager
async def beating() -> AsyncIterator[Heartbeat]:
    heartbeat = Heartbeat()
    task = asyncio.create_task(heartbeat.beat())
    try:
        yield heartbeat
    finally:
        task.cancel()


@asynccontextmanager
async def connected(edge: RunningEdge) -> AsyncIterator[Stream]:
    url = URL(edge.http.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        async with asyncio.timeout(WAIT_MAX_S):
            yield reader, writer
    finally:
        writer.close()


@asynccontextmanager
async def opened(edge: RunningEdge) -> AsyncIterator[Stream]:
    async with connected(edge) as (reader, writer):
        writer.write(UPGRADE)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        yield reader, writer


def frame(first: int, payload: bytes = b"") -> bytes:
    """A frame whose mask is zeros, which leave the payload unchanged."""
    return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload


async def next_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, size = await reader.readexactly(2)
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2))
    return first, await reader.readexactly(size)


MESSAGES = {
    "one byte": frame(TEXT, b"x"),
    "nothing": frame(TEXT),
    "binary": frame(BINARY, b"x"),
    "wrong type": frame(TEXT, b'{"type":"x"}'),
    "steer": frame(TEXT, b'{"type":"response.steer","previous_response_id":"a","input":"b"}'),
    "cancel": frame(TEXT, b'{"type":"response.cancel"}'),
}


LAST = frame(TEXT, b'{"type":"the last one"}')


@pytest.mark.parametrize("kind", MESSAGES)
async def test_messages_of_one_read_are_handled_one_in_each_iteration_of_the_loop(edge: RunningEdge, kind: str) -> None:
    count = USELESS_RATE.burst - 1
    async with opened(edge) as (reader, writer), beating() as heartbeat:
        writer.write(MESSAGES[kind] * count + LAST)
        while b"the last one" not in (await next_frame(reader))[1]:
            pass
        assert heartbeat.turns >= count


@pytest.mark.parametrize("kind", [kind for kind in MESSAGES if kind != "cancel"])
async def test_messages_that_begin_nothing_are_answered_up_to_a_limit_and_then_dropped(
    edge: RunningEdge, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = list[bytes]()
    check = CheckedFrames._checked

    def noted(frames: CheckedFrames, data: bytes) -> bytes:
        checked.append(data)
        return check(frames, data)

    async with opened(edge) as (reader, writer):
        monkeypatch.setattr(CheckedFrames, "_checked", noted)
        writer.write(MESSAGES[kind] * USELESS_RATE.burst * 2)
        answers = 0
        while (received := await next_frame(reader))[0] != CLOSE:
            answers += 1
        assert received[1] == POLICY_VIOLATION.to_bytes(2) + TOO_MANY_USELESS.reason.encode()
        assert USELESS_RATE.burst < answers < USELESS_RATE.burst * 2
        checked.clear()
        writer.write(MESSAGES[kind] * USELESS_RATE.burst)
        with suppress(ConnectionError):
            assert await reader.read() == b""  # the client sends no close frame
        assert checked == []


FRAMES = {
    "pings": (frame(PING) * 2 * socket_frames.CONTROL_RATE.burst, socket_frames.TOO_MANY_CONTROL_FRAMES),
    "full pings": (frame(PING, b"x" * 125) * (socket_frames.CONTROL_RATE.burst + 1), None),
    "pongs": (frame(PONG) * 2 * socket_frames.CONTROL_RATE.burst, socket_frames.TOO_MANY_CONTROL_FRAMES),
    "fragments": (
        frame(BEGINNING, b"x") + frame(CONTINUATION, b"x") * socket_frames.FRAGMENTS_MAX,
        socket_frames.TOO_MANY_FRAGMENTS,
    ),
    "empty fragments": (
        frame(BEGINNING) + frame(CONTINUATION) * socket_frames.FRAGMENTS_MAX,
        socket_frames.TOO_MANY_FRAGMENTS,
    ),
    "pings between fragments": (
        frame(BEGINNING, b"x") + (frame(PING) + frame(CONTINUATION)) * 2 * socket_frames.CONTROL_RATE.burst,
        socket_frames.TOO_MANY_CONTROL_FRAMES,
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
async def test_frames_that_carry_nothing_close_the_connection_at_a_limit(edge: RunningEdge, kind: str) -> None:
    stream, violation = FRAMES[kind]
    violation = violation or socket_frames.TOO_MANY_CONTROL_FRAMES
    async with opened(edge) as (reader, writer), beating() as heartbeat:
        writer.write(stream)
        pongs = 0
        while (received := await next_frame(reader))[0] == PONG:
            pongs += 1
        assert received == (CLOSE, violation.code.to_bytes(2) + violation.reason.encode())
        assert pongs <= socket_frames.CONTROL_RATE.burst
        assert heartbeat.turns >= len(stream) // FRAME_BYTES


def chunked(content: bytes, extension: bytes = b"") -> bytes:
    """A request whose body comes in chunks of one byte."""
    chunks = b"".join(b"1%s\r\n%c\r\n" % (extension, byte) for byte in content)
    return head(b"POST /v1/responses", b"Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n"


async def answer_to(edge: RunningEdge, request: bytes) -> RawAnswer:
    async with connected(edge) as (reader, writer):
        writer.write(request)
        return await read(reader)


@pytest.mark.parametrize("extension", [b"", b";a=b"])
async def test_body_in_chunks_of_one_byte_is_parsed_a_few_kilobytes_in_each_iteration_of_the_loop(
    edge: RunningEdge, extension: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []
    receive = StreamConnection.data_received

    def counted(connection: StreamConnection, data: bytes) -> None:
        fed.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(StreamConnection, "data_received", counted)
    request = chunked(b'{"model":"m","input":"' + b"x" * 100_000 + b'"}', extension)
    reads = len(request) // FRAMED_BYTES
    async with beating() as heartbeat:
        assert (await answer_to(edge, request)).status == 200
    assert heartbeat.turns >= reads
    assert max(fed) <= FRAMED_BYTES
    assert len([size for size in fed if not size]) <= reads  # aiohttp feeds the parser again, once for each pause


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
async def test_each_piece_of_a_compressed_body_is_decoded_in_an_iteration_of_its_own(
    edge: RunningEdge, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"model": "m", "input": "hi"}' + b" " * 8 * 2**20
    encoding = "gzip" if compress is gzip.compress else "deflate"
    taken = list[int]()
    take = ByteBudget.take

    async with beating() as heartbeat:

        def noted(budget: ByteBudget, holder: str, size: int) -> Excess | None:
            taken.append(heartbeat.turns)
            return take(budget, holder, size)

        monkeypatch.setattr(ByteBudget, "take", noted)
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        answer = await edge.ask("POST", "/v1/responses", compress(body), headers=headers)
    assert answer.status == 200
    assert len(set(taken)) >= 8


@pytest.mark.parametrize(
    "body",
    [chunked(b" " * 500_000), chunked(b" " * 50_000, b";a=" + b"x" * 50), b"1;a=" + b"x" * 2 * CHUNK_FRAMING_BYTES_MAX],
    ids=["small chunks", "extensions", "an endless extension"],
)
async def test_body_with_more_framing_than_the_limit_is_answered_413(edge: RunningEdge, body: bytes) -> None:
    request = body if body.startswith(b"POST") else chunked(b"").removesuffix(b"0\r\n\r\n") + body
    refused = await answer_to(edge, request)
    assert (refused.status, refused.error["code"]) == (413, "request_too_large")
    assert str(CHUNK_FRAMING_BYTES_MAX) in refused.error["message"]


async def test_body_of_a_length_above_the_limit_is_answered_before_it_is_read(edge: RunningEdge) -> None:
    refused = await answer_to(edge, head(b"POST /v1/responses", b"Content-Length: %d" % (BODY_BYTES_MAX + 1)) + b"{")
    assert (refused.status, refused.error["code"]) == (413, "request_too_large")


def test_bytes_are_parsed_and_unmasked_by_compiled_code() -> None:
    assert http.HttpRequestParser.__module__ == "aiohttp._http_parser"
    assert http.WebSocketReader.__module__.endswith("reader_c")
    assert helpers.websocket_mask is not helpers._websocket_mask_python
