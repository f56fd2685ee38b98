"""Many small pieces: WebSocket messages, frames and chunks with a byte each. A caller makes the event loop handle a few
kilobytes of them at a time, so that the requests of others are served in between, and is disconnected at a limit."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import http
from aiohttp._websocket import helpers
from yarl import URL

from antiphon_core.byte_budget import Excess, Tally
from antiphon_core.errors import InvalidApiKey
from antiphon_core.limits import BODY_BYTES_MAX, CHUNK_FRAMING_BYTES_MAX
from antiphon_edge.callers import authentication
from antiphon_edge.http import decoding, encodings, http_server, socket_frames
from antiphon_edge.http.connections import FRAME_BYTES, FRAMED_BYTES, PacedReads, StreamConnection
from antiphon_edge.http.socket_frames import CheckedFrames
from antiphon_edge.websocket.connection import TOO_MANY_USELESS, USELESS_RATE, Connection
from antiphon_edge.websocket.lanes import Lanes
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import RawAnswer, head, read
from tests.support.waiting import WAIT_MAX_S

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
async def test_messages_that_begin_nothing_are_answered_up_to_a_limit(edge: RunningEdge, kind: str) -> None:
    async with opened(edge) as (reader, writer):
        writer.write(MESSAGES[kind] * USELESS_RATE.burst * 2)
        answers = 0
        while (received := await next_frame(reader))[0] != CLOSE:
            answers += 1
        assert received[1] == POLICY_VIOLATION.to_bytes(2) + TOO_MANY_USELESS.reason.encode()
        assert USELESS_RATE.burst < answers < USELESS_RATE.burst * 2


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


CREATE = frame(TEXT, b'{"type":"response.create","model":"m","input":"hi"}')
TOO_BIG = bytes([TEXT, 0xFF]) + (BODY_BYTES_MAX + 1).to_bytes(8) + bytes(4)
SENT: dict[str, tuple[bytes, int]] = {
    "useless messages": (MESSAGES["one byte"] * USELESS_RATE.burst * 2, 1008),
    "pings": (frame(PING) * 2 * socket_frames.CONTROL_RATE.burst, 1008),
    "a frame without a mask": (b"\x81\x01x", 1002),
    "an unknown opcode": (frame(0x83), 1002),
    "invalid UTF-8": (frame(TEXT, b"\xff"), 1007),
    "a message over the limit": (TOO_BIG, 1009),
}
DONE: dict[str, tuple[Callable[[Connection, pytest.MonkeyPatch], None], bytes, int]] = {
    "the maximum age": (lambda open_, _: open_.expire(60.0), b"", 1000),
    "a shutdown": (lambda open_, _: open_.leave(), b"", 1001),
    "a revoked key": (
        lambda _, patch: patch.setattr(authentication, "check_again", fails(InvalidApiKey("revoked"))),
        CREATE,
        1008,
    ),
    "no memory": (lambda _, patch: patch.setattr(Tally, "try_add", lambda *_: Excess.TOTAL), CREATE, 1013),
    "a fault of the server": (lambda _, patch: patch.setattr(Lanes, "receive", fails(RuntimeError())), CREATE, 1011),
}


class Work:
    """Counts the bytes that a server reads, and keeps those that it parses as frames."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read_bytes = 0
        self.parsed = list[bytes]()
        self._updated = asyncio.Event()
        check, update = CheckedFrames._check_frames, PacedReads.buffer_updated

        def checked(frames: CheckedFrames, data: bytes) -> bytes:
            self.parsed.append(data)
            return check(frames, data)

        def updated(reads: PacedReads, nbytes: int) -> None:
            update(reads, nbytes)
            self.read_bytes += nbytes
            self._updated.set()

        monkeypatch.setattr(CheckedFrames, "_check_frames", checked)
        monkeypatch.setattr(PacedReads, "buffer_updated", updated)

    async def until_read(self, size: int) -> None:
        while self.read_bytes < size:
            self._updated.clear()
            await self._updated.wait()


async def close_frame(reader: asyncio.StreamReader) -> int:
    """Reads up to the close frame, and returns its code."""
    while (received := await next_frame(reader))[0] != CLOSE:
        pass
    return int.from_bytes(received[1][:2])


@pytest.mark.parametrize("reason", [*SENT, *DONE])
async def test_bytes_after_a_close_frame_of_the_server_are_dropped_whatever_its_reason(
    edge: RunningEdge, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "LINGER_S", WAIT_MAX_S)
    async with opened(edge) as (reader, writer):
        if reason in DONE:
            cause, sent, code = DONE[reason]
            (open_,) = edge.server._sockets._open
            cause(open_, monkeypatch)
        else:
            sent, code = SENT[reason]
        writer.write(sent)
        assert await close_frame(reader) == code
        assert await reader.read() == b""  # without a close frame of the client
        work = Work(monkeypatch)
        flood = MESSAGES["one byte"] * 5_000
        writer.write(flood)
        await work.until_read(len(flood))
        assert work.parsed == []


async def test_client_that_goes_on_sending_after_the_end_is_disconnected_at_a_limit(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "LINGER_S", 10 * WAIT_MAX_S)
    monkeypatch.setattr(http_server, "DROPPED_BYTES_MAX", 2**20)
    async with opened(edge) as (reader, writer):
        writer.write(SENT["invalid UTF-8"][0])
        assert await close_frame(reader) == SENT["invalid UTF-8"][1]
        with pytest.raises(ConnectionError):
            while True:
                writer.write(MESSAGES["one byte"] * 5_000)
                await writer.drain()


async def test_client_that_closes_gets_its_code_back_at_once(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "LINGER_S", 10 * WAIT_MAX_S)
    async with opened(edge) as (reader, writer):
        writer.write(frame(CLOSE, (1000).to_bytes(2)))
        assert await close_frame(reader) == 1000
        with pytest.raises(ConnectionError):
            while True:  # it is not left open for the rest
                writer.write(MESSAGES["one byte"])
                await writer.drain()
                await asyncio.sleep(0)


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


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("encoding", PACKED)
async def test_compressed_bodies_are_decoded_outside_the_event_loop(
    edge: RunningEdge, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four bodies of some kilobytes, each of which expands to 8 MiB."""
    here = threading.current_thread()
    decoded = Counter[bool]()
    decompress = encodings._decompress

    def noted(*given: Any) -> bytes:
        piece = decompress(*given)
        decoded[threading.current_thread() is here] += len(piece)
        return piece

    monkeypatch.setattr(encodings, "_decompress", noted)
    packed = PACKED[encoding](b'{"model": "m", "input": "hi"}' + b" " * 8 * 2**20)
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    answers = await asyncio.gather(*(edge.ask("POST", "/v1/responses", packed, headers=headers) for _ in range(4)))
    assert [answer.status for answer in answers] == [200] * 4
    assert decoded[True] == 4 * decoding.INLINE_BYTES_MAX
    assert decoded[False] > 30 * 2**20


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
