"""Reads gRPC streams off HTTP/2 with as little work as Python can do: frames are cut by hand.

An experiment that measures the least cost, not a client to use: it has almost no flow control, reads no trailers and
handles no errors.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import hpack

from tests.support.ports import HOST

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WINDOW_MAX = 2**31 - 1
_WINDOW_DEFAULT = 2**16 - 1
_WINDOW_UPDATE_BYTES = 2**24
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


@dataclass(slots=True)
class Call:
    """One RPC: its unfinished message, and the callback for messages, which gets None at the end."""

    on_messages: Callable[[Sequence[bytes] | None], None]
    rest: bytes = b""
    ready: list[bytes] = field(default_factory=list)
    has_ended: bool = False

    def feed(self, data: bytes) -> None:
        """Cuts whole messages from the received bytes."""
        data = self.rest + data if self.rest else data
        start = 0
        while len(data) - start >= 5:
            end = start + 5 + int.from_bytes(data[start + 1 : start + 5], "big")
            if len(data) < end:
                break
            self.ready.append(data[start + 5 : end])
            start = end
        self.rest = data[start:]


class Reader(asyncio.Protocol):
    """A connection that passes all messages of one read to each call at once."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._rest = b""
        self._calls: dict[int, Call] = {}
        self._next_stream = 1
        self._unacknowledged = 0
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        windows = struct.pack(">HIHI", 4, _WINDOW_MAX, 3, 100_000)
        grown = struct.pack(">I", _WINDOW_MAX - _WINDOW_DEFAULT)
        self.transport.write(_PREFACE + frame(_SETTINGS, 0, 0, windows) + frame(_WINDOW_UPDATE, 0, 0, grown))

    def call(self, message: bytes, on_messages: Callable[[Sequence[bytes] | None], None]) -> None:
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self._calls[stream] = Call(on_messages)
        fixed = {":method": "POST", ":scheme": "http", ":path": _METHOD, ":authority": HOST}
        headers = self._encoder.encode(list((fixed | {"content-type": "application/grpc", "te": "trailers"}).items()))
        body = b"\0" + struct.pack(">I", len(message)) + message
        self.transport.write(frame(_HEADERS, _END_HEADERS, stream, headers) + frame(_DATA, _END_STREAM, stream, body))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        start = 0
        touched: dict[int, Call] = {}
        while len(data) - start >= 9:
            end = start + 9 + ((data[start] << 16) | (data[start + 1] << 8) | data[start + 2])
            if len(data) < end:
                break
            stream = int.from_bytes(data[start + 5 : start + 9], "big")
            self._frame(data[start + 3], data[start + 4], stream, data[start + 9 : end])
            if stream in self._calls:
                touched[stream] = self._calls[stream]
            start = end
        self._rest = data[start:]
        if self._unacknowledged > _WINDOW_UPDATE_BYTES:
            self.transport.write(frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._unacknowledged)))
            self._unacknowledged = 0
        self._tell(touched)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        call = self._calls.get(stream)
        if kind == _DATA and call is not None:
            self._unacknowledged += len(payload)
            call.feed(payload)
        elif kind == _HEADERS:
            self._decoder.decode(payload)
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            self.transport.write(frame(kind, _ACK, 0, payload if kind == _PING else b""))
        if call is not None and (kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM)):
            call.has_ended = True

    def _tell(self, touched: dict[int, Call]) -> None:
        for stream, call in touched.items():
            if call.ready:
                messages, call.ready = call.ready, []
                call.on_messages(messages)
            if call.has_ended:
                del self._calls[stream]
                call.on_messages(None)
