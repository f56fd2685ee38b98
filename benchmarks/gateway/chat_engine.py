"""A fake chat engine: about a hundred thousand deltas a second, or a paced stream.

    python -m benchmarks.gateway.chat_engine --port 9100 [--delay-ms 20]

The body of a request controls its answer: `max_tokens` (or `max_completion_tokens`, `max_output_tokens`) is the number
of deltas, and the words `every 20 ms` in its last message pace them. Each delta is written separately. `GET /stats`
returns the number of messages in the longest request since the last `GET /stats`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, cast

import uvloop

from antiphon_core.jsons import dumps, loads
from benchmarks.gateway.chat_answers import MODEL, RESPONSE_KEY, chat_stream, responses_stream
from tests.support.ports import HOST

_HEAD_END = b"\r\n\r\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_STREAM_END = b"0\r\n\r\n"
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_PACE = re.compile(r"every (\d+) ms")
_DELTAS_DEFAULT = 200
_stats = {"longest_messages": 0}
_numbers = count(1)


class Stream:
    """Writes one answer, one delta at a time. A paced stream keeps its schedule even when a delta is late."""

    def __init__(self, engine: Engine, chunks: Iterator[bytes], delay_s: float) -> None:
        self._engine = engine
        self._chunks = chunks
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + delay_s
        engine.transport.write(_STREAM_HEAD)
        self._schedule()

    def _schedule(self) -> None:
        if self._delay_s:
            self._loop.call_at(self._due, self.write_next)
            self._due += self._delay_s
        else:
            self._loop.call_soon(self.write_next)

    def write_next(self) -> None:
        """Writes the next delta, unless the client has disconnected or reads too slowly."""
        engine = self._engine
        if engine.transport.is_closing():
            return
        if engine.is_paused:
            engine.waiting = self
            return
        data = next(self._chunks, None)
        if data is None:
            engine.transport.write(_STREAM_END)
            return
        engine.transport.write(data)
        self._schedule()


class Engine(asyncio.Protocol):
    """One keep-alive connection."""

    transport: asyncio.Transport

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._received = bytearray()
        self.is_paused = False
        self.waiting: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        stream, self.waiting = self.waiting, None
        if stream is not None:
            stream.write_next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head_end := self._received.find(_HEAD_END)) >= 0:
            head = bytes(self._received[:head_end])
            length = int(found[1]) if (found := _LENGTH.search(head)) else 0
            end = head_end + len(_HEAD_END) + length
            if len(self._received) < end:
                return
            body = bytes(self._received[end - length : end])
            del self._received[:end]
            self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if path.endswith(b"/chat/completions"):
            request = loads(body)
            self._stream(request["messages"], iter(chat_stream(_deltas(request))))
        elif path.endswith(b"/responses"):
            request = loads(body)
            key = b"%016x" % next(_numbers)
            chunks = (data.replace(RESPONSE_KEY, key) for data in responses_stream(_deltas(request)))
            self._stream(request["input"], chunks)
        elif path.endswith(b"/models"):
            self._send({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "bench"}]})
        else:
            self._send(_stats)
            _stats["longest_messages"] = 0

    def _stream(self, messages: list[Mapping[str, Any]] | str, chunks: Iterator[bytes]) -> None:
        if not isinstance(messages, str):
            _stats["longest_messages"] = max(_stats["longest_messages"], len(messages))
        last = messages if isinstance(messages, str) else str(messages[-1]["content"])
        pace = _PACE.search(last)
        Stream(self, chunks, int(pace[1]) / 1000 if pace else self._delay_s)

    def _send(self, value: Mapping[str, Any]) -> None:
        data = dumps(value)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % len(data) + data)


def _deltas(request: Mapping[str, Any]) -> int:
    given = (request.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))
    return next((value for value in given if value), _DELTAS_DEFAULT)


async def _serve(port: int, delay_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Engine(delay_s), HOST, port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-ms", type=float, default=0)
    options = parser.parse_args()
    uvloop.run(_serve(options.port, options.delay_ms / 1000))


if __name__ == "__main__":
    main()
