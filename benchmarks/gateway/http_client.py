"""A keep-alive HTTP client that notes when the deltas of a stream arrive, and does little else."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from dataclasses import dataclass, field
from typing import cast

_HEAD_END = b"\r\n\r\n"
_STREAM_END = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"transfer-encoding:\s*chunked", re.IGNORECASE)


@dataclass(slots=True)
class Reply:
    """An answer with its arrival times, which are those of `time.perf_counter`."""

    sent_s: float
    ended_s: float = 0.0
    is_whole: bool = False
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """The time and the number of deltas of each read."""
    data: bytearray = field(default_factory=bytearray)

    @property
    def status(self) -> int:
        return int(self.data[9:12] or b"0")

    @property
    def body(self) -> bytes:
        """The body of an answer that was not sent in chunks."""
        return bytes(self.data[self.data.find(_HEAD_END) + len(_HEAD_END) :])


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    transport: asyncio.Transport

    def __init__(self, marker: bytes) -> None:
        """`marker` is in each delta exactly once."""
        self._marker = marker
        self._reply = Reply(0)
        self._body_start = 0
        self._length: int | None = None
        self._done: asyncio.Future[None] | None = None
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        self._finish(is_whole=False)

    async def ask(self, request: bytes) -> Reply:
        """Sends a request. Returns its answer, which is incomplete if the connection was lost."""
        self._reply = Reply(time.perf_counter())
        self._body_start, self._length = 0, None
        self._done = asyncio.get_running_loop().create_future()
        if self.is_open:
            self.transport.write(request)
            await self._done
        return self._reply

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        seen = max(0, len(reply.data) - len(self._marker) + 1)
        reply.data += data
        if deltas := reply.data.count(self._marker, seen):
            reply.arrivals.append((time.perf_counter(), deltas))
        if not self._body_start and not self._read_head():
            return
        if self._length is None:
            if reply.data.endswith(_STREAM_END):
                self._finish(is_whole=True)
        elif len(reply.data) >= self._body_start + self._length:
            self._finish(is_whole=True)

    def _read_head(self) -> bool:
        end = self._reply.data.find(_HEAD_END)
        if end < 0:
            return False
        head = bytes(self._reply.data[:end])
        self._body_start = end + len(_HEAD_END)
        found = _LENGTH.search(head)
        self._length = None if _CHUNKED.search(head) or found is None else int(found[1])
        return True

    def _finish(self, *, is_whole: bool) -> None:
        if self._done is not None and not self._done.done():
            self._reply.ended_s = time.perf_counter()
            self._reply.is_whole = is_whole
            self._done.set_result(None)


async def connect(host: str, port: int, marker: bytes) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(lambda: Connection(marker), host, port)
    return connection
