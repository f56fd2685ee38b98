"""Reads of limited size, write timeouts and send buffers: the pace at which the bytes of a connection move.

A connection parses a few kilobytes, and more only in the next iteration of the event loop. The work for a byte depends
on its meaning. A read of 256 KiB, asyncio's size, can hold 43,000 chunks of a body or frames of a WebSocket with one
byte each. Handling them took a second in which no other request was served, and uvloop reads up to 32 times in a row.
So what may be framing is read FRAMED_BYTES at a time. More bytes are read at once only where a length that was
announced says that they are plain content.

Bytes that a client does not read stay in the kernel's send buffer (megabytes, if the kernel sizes it) and in asyncio's
(64 KiB). A stream gets a small send buffer in the kernel, so that asyncio's buffer fills early and pauses the stream.
sse.py closes the connection when the stream stays paused for too long. An answer that is written in one piece is never
paused. The kernel enforces its timeout (TCP_USER_TIMEOUT), as it does for clients whose network is gone.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

from aiohttp import web

from antiphon_core.byte_budget import Tally
from antiphon_edge.access_settings import AccessSettings
from antiphon_edge.http.socket_frames import CheckedFrames, Violation

log = logging.getLogger(__name__)

FRAMED_BYTES = 8 * 2**10
"""1,400 chunks of one byte, which take 2 ms. Most requests have fewer bytes than this."""
FRAME_BYTES = 2 * 2**10
"""350 frames of a WebSocket with one byte each. A frame costs several times as much as a chunk: with 8 KiB at a time,
20 connections kept the loop busy for 0.4 s in each iteration."""
PLAIN_BYTES = 64 * 2**10
"""A body of 10 MB takes 160 iterations of the loop."""


class ReadBuffer:
    """The memory that all connections of one event loop read into: each read is parsed before the next one."""

    def __init__(self) -> None:
        self.bytes = memoryview(bytearray(PLAIN_BYTES))


class Connection(Protocol):
    """The protocol that parses what is read: asyncio.Protocol, with two members more."""

    @property
    def read_bytes(self) -> int:
        """How many bytes to read where they may be framing, or of the plain content that comes next if that is more.
        Not more than PLAIN_BYTES are read."""
        ...

    def read_on(self) -> None:
        """Resumes reading, unless flow control has paused it."""
        ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class PacedReads(asyncio.BufferedProtocol):
    """Reads for a connection. It stands between transport and connection: uvloop gives no buffers to a protocol that is
    an asyncio.Protocol, too, as those of aiohttp are."""

    def __init__(self, connection: Connection, read_buffer: ReadBuffer) -> None:
        self._connection = connection
        self._buffer = read_buffer.bytes
        self._asked_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        self._asked_bytes = min(self._connection.read_bytes, PLAIN_BYTES)
        return self._buffer[: self._asked_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.data_received(bytes(self._buffer[:nbytes]))
        if nbytes == self._asked_bytes:  # more may wait in the kernel: other connections come first
            self._transport.pause_reading()
            self._loop.call_soon(self._connection.read_on)


@dataclass(frozen=True, slots=True)
class WriteBounds:
    """The limits of one server. `send_buffer_bytes` is the kernel's buffer of one stream; the kernel doubles the figure
    for its own data."""

    write_timeout_s: float = 15.0
    send_buffer_bytes: int = 64 * 2**10

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        return cls(settings.write_timeout_s, settings.send_buffer_bytes)


class WritingListener(Protocol):
    """Callbacks for the transport's buffer: it is full, or has room again."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class StreamConnection(web.RequestHandler):
    """A connection that reports the state of its transport's buffer, and remembers the options of its socket."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, read_bufsize=PLAIN_BYTES, **options)
        self.writing_listener: WritingListener | None = None
        self.options: dict[tuple[int, int], int | bytes] = {}
        self._is_paused = False  # by the reader of a body
        self.frames: CheckedFrames | None = None  # once the connection is a WebSocket

    def pause_reading(self) -> None:
        self._is_paused = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resumes reading if it is paused. aiohttp calls this for every chunk that a handler reads of a body, and feeds
        the parser with nothing each time: with chunks of one byte, that was most of the work."""
        if self._is_paused:
            self._is_paused = False
            super().resume_reading(resume_parser)

    def read_on(self) -> None:
        """Resumes the transport that PacedReads has paused, unless aiohttp's own flow control holds it."""
        if not self._is_paused:
            super().resume_reading(resume_parser=False)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.writing_listener is not None:
            self.writing_listener.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.writing_listener is not None:
            self.writing_listener.resume_writing()


_DROP_UNSENT = struct.pack("ii", 1, 0)  # struct linger: closing resets the connection
_BOUNDS: web.AppKey[WriteBounds] = web.AppKey("write bounds", WriteBounds)


def set_bounds(app: web.Application, bounds: WriteBounds) -> None:
    app[_BOUNDS] = bounds


def bounds_of(request: web.Request) -> WriteBounds:
    return request.app[_BOUNDS]


async def bound_answer(request: web.Request, _response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: sets the timeout after which the kernel closes the connection of a client
    that does not read."""
    timeout_ms = round(request.app[_BOUNDS].write_timeout_s * 1000)
    _set_option(request, socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


def bound_stream(request: web.Request) -> None:
    """Gives the connection the send buffer of a stream. Call it when the stream begins."""
    _set_option(request, socket.SOL_SOCKET, socket.SO_SNDBUF, request.app[_BOUNDS].send_buffer_bytes)


def watch_writing(request: web.Request, listener: WritingListener | None) -> None:
    """Makes `listener` receive the callbacks of this request's connection; None ends them."""
    connection = request.protocol
    if not isinstance(connection, StreamConnection):
        raise TypeError("the connection was not made by HttpServer")
    connection.writing_listener = listener
    if listener is not None and connection.writing_paused:
        listener.pause_writing()


def bound_messages(request: web.Request, tally: Tally, fail: Callable[[Violation], None]) -> None:
    """Counts the bytes of each WebSocket message in `tally` until the message is complete. Calls `fail` when the client
    breaks a rule for frames, or a message exceeds the budget; nothing more is read then."""
    connection = request.protocol
    if isinstance(connection, StreamConnection) and connection.frames is not None:
        connection.frames.watch(_MessageBound(tally, fail))


def drop_messages(request: web.BaseRequest) -> None:
    """Drops all that the client sends from now on."""
    connection = request.protocol
    if isinstance(connection, StreamConnection) and connection.frames is not None:
        connection.frames.drop()


class _MessageBound:
    def __init__(self, tally: Tally, fail: Callable[[Violation], None]) -> None:
        self._tally = tally
        self.fail = fail

    def grow(self, size: int) -> bool:
        return self._tally.try_add(size) is None

    def end(self) -> None:
        self._tally.clear()


def cut(request: web.Request) -> None:
    """Resets the connection of a client that does not read. This cancels its handler."""
    log.info("%s does not read its stream, and is disconnected", request.remote)
    _set_option(request, socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT)
    if request.transport is not None:
        request.transport.abort()


def _set_option(request: web.Request, level: int, option: int, value: int | bytes) -> None:
    """Sets a socket option, once for all requests of a connection. Does nothing if the TCP connection is gone."""
    connection = request.protocol
    if not isinstance(connection, StreamConnection) or connection.options.get((level, option)) == value:
        return
    connection.options[level, option] = value
    found = request.transport.get_extra_info("socket") if request.transport is not None else None
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(level, option, value)
