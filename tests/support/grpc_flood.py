"""A gRPC client that sends HTTP/2 frames, announces large messages and stops one byte before their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.support.waiting import WAIT_MAX_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES = 16 * 2**10
WINDOW_BYTES = 2**16 - 1
_ANSWER_WINDOW_BYTES = 2**20


@dataclass
class Sending:
    """One call: the rest of its message, the bytes that the server has taken, and the status with which the server
    ended it."""

    left: int
    window: int
    taken: int = 0
    status: str | None = None

    @property
    def is_over(self) -> bool:
        return self.status is not None or self.left == 0


@dataclass
class Flood:
    """One connection. `read_frames` runs while data are sent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sendings: dict[int, Sending] = field(default_factory=dict)
    window: int = WINDOW_BYTES
    stream_window: int = WINDOW_BYTES
    streams_max: int | None = None
    is_closed: bool = False
    _encoder: Encoder = field(default_factory=Encoder)
    _decoder: Decoder = field(default_factory=Decoder)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def call(self, path: str, announced: int, metadata: Sequence[tuple[str, str]] = ()) -> Sending:
        """Begins a call that announces a message of `announced` bytes."""
        return self._begin(path, b"\0" + announced.to_bytes(4, "big"), announced - 1, metadata)

    def ask(self, path: str, message: bytes, metadata: Sequence[tuple[str, str]] = ()) -> Sending:
        """Sends a whole call. The answer fills the window that the connection announced, and is not read further."""
        return self._begin(path, b"\0" + len(message).to_bytes(4, "big") + message, 0, metadata)

    def _begin(self, path: str, first: bytes, left: int, metadata: Sequence[tuple[str, str]]) -> Sending:
        stream_id = 2 * len(self.sendings) + 1
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")]
        fields += [("te", "trailers"), ("content-type", "application/grpc"), *metadata]
        block = self._encoder.encode(fields)
        self._write(HeadersFrame(stream_id, block, flags=["END_HEADERS"]))
        self._write(DataFrame(stream_id, first, flags=[] if left else ["END_STREAM"]))
        self.window -= len(first)
        sending = Sending(left, self.stream_window - len(first))
        self.sendings[stream_id] = sending
        return sending

    async def send_all(self) -> None:
        """Sends until each call has ended or only its last byte is left."""
        async with asyncio.timeout(WAIT_MAX_S):
            while not self.is_closed and not all(each.is_over for each in self.sendings.values()):
                self._changed.clear()
                if not self._send_some():
                    await self._changed.wait()
                await self.writer.drain()
                await asyncio.sleep(0)

    async def all_ended(self) -> None:
        """Waits until the server has ended every call."""
        async with asyncio.timeout(WAIT_MAX_S):
            while not self.is_closed and any(each.status is None for each in self.sendings.values()):
                self._changed.clear()
                await self._changed.wait()

    @property
    def taken(self) -> int:
        """The bytes of unfinished calls that the server has taken and holds."""
        return sum(each.taken for each in self.sendings.values() if each.status is None)

    @property
    def statuses(self) -> set[str | None]:
        return {each.status for each in self.sendings.values()}

    def _send_some(self) -> bool:
        has_sent = False
        for stream_id, sending in self.sendings.items():
            size = min(sending.left, sending.window, self.window, FRAME_BYTES)
            if sending.is_over or size <= 0:
                continue
            self._write(DataFrame(stream_id, bytes(size)))
            sending.left -= size
            sending.window -= size
            sending.taken += size
            self.window -= size
            has_sent = True
        return has_sent

    def _write(self, frame: Frame) -> None:
        self.writer.write(frame.serialize())

    async def read_frames(self) -> None:
        try:
            while True:
                frame, length = Frame.parse_frame_header(memoryview(await self.reader.readexactly(9)))
                frame.parse_body(memoryview(await self.reader.readexactly(length)))
                self._hear(frame)
                self._changed.set()
        except (OSError, asyncio.IncompleteReadError):
            self.is_closed = True
            self._changed.set()

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame, WindowUpdateFrame):
            if frame.stream_id == 0:
                self.window += frame.window_increment
            else:
                self.sendings[frame.stream_id].window += frame.window_increment
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self._settle(frame)
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self._write(PingFrame(0, frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, HeadersFrame):
            headers = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
            sending = self.sendings[frame.stream_id]
            sending.status = headers.get("grpc-status", sending.status)
        elif isinstance(frame, RstStreamFrame):
            sending = self.sendings[frame.stream_id]
            sending.status = sending.status or f"reset {frame.error_code}"
        elif isinstance(frame, GoAwayFrame):
            self.is_closed = True

    def _settle(self, frame: SettingsFrame) -> None:
        self.streams_max = frame.settings.get(SettingsFrame.MAX_CONCURRENT_STREAMS, self.streams_max)
        window = frame.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, self.stream_window)
        for sending in self.sendings.values():
            sending.window += window - self.stream_window
        self.stream_window = window
        self._write(SettingsFrame(0, flags=["ACK"]))


@asynccontextmanager
async def flood(port: int, *, answer_window: int = _ANSWER_WINDOW_BYTES) -> AsyncIterator[Flood]:
    """Opens a connection to a gRPC server on this machine, which may send `answer_window` bytes in each stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE + SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: answer_window}).serialize())
    opened = Flood(reader, writer)
    reading = asyncio.create_task(opened.read_frames())
    try:
        yield opened
    finally:
        reading.cancel()
        writer.close()
