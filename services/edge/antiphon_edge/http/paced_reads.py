"""Reads of limited size. A connection parses a few kilobytes, and more only in the next iteration of the event loop.

The work for a byte depends on its meaning. A read of 256 KiB, asyncio's size, can hold 43,000 chunks of a body or
frames of a WebSocket with one byte each. Handling them took a second in which no other request was served, and uvloop
reads up to 32 times in a row. So what may be framing is read FRAMED_BYTES at a time. More bytes are read at once only
where a length that was announced says that they are plain content.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

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
