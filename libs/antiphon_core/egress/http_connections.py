"""The connections of HTTP clients, to engines, tool servers and the hosts of URLs: their heads are bounded.

A server may send any number of interim responses (1xx) before its answer. aiohttp parses all of a read, queues each
head, and waits for the next: an endless sequence of them stopped the event loop for 4 s at a time and took 190 MB. Here
a connection is closed when the heads before an answer, its own included, are too many or too long, and when a server
sends an answer that no request asked for.

A read of the socket has 256 KiB, or 16,000 heads. So the parser gets it in pieces, and none after the connection was
closed.

The framing of a body in chunks is bounded, too: a host of images that sent chunks of one byte, and eight fetches of it,
took nine tenths of the event loop for as long as the timeout, and other turns waited up to 40 s.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler

from antiphon_core.limits import (
    HTTP_FRAMING_BYTES_MAX,
    HTTP_HEADS_BYTES_MAX,
    HTTP_INTERIM_ITEMS_MAX,
    HTTP_PIECE_BYTES_MAX,
)

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_COMPRESSIONS = ("gzip", "deflate", "br", "zstd", "compress")


class EndlessFraming(aiohttp.ClientError):
    """A server sent more heads, or more framing of chunks, than an answer may have. The message says how many."""


class BoundedConnector(aiohttp.TCPConnector):
    """Connects as aiohttp's own connector. Create it inside an event loop.

    The framing of a body in chunks may have HTTP_FRAMING_BYTES_MAX, and a byte more for each `chunk_bytes` of content.
    A chunk of up to 255 bytes has five or six bytes of framing, so chunks of six times `chunk_bytes` always pass.
    """

    def __init__(self, *, chunk_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        # aiohttp has no public place for the protocol of its connections. If a later release ignores this one,
        # tests/attacks/test_hostile_engines.py fails.
        self._factory = partial(_protocol, asyncio.get_running_loop(), chunk_bytes)


def _protocol(loop: asyncio.AbstractEventLoop, chunk_bytes: int) -> ResponseHandler:
    return BoundedProtocol(loop, chunk_bytes)


class BoundedProtocol(ResponseHandler):
    """The protocol of one connection, for one request after the other."""

    _interim = 0
    """Interim responses since the request."""
    _head_bytes = 0
    """Bytes since the request, until its answer."""
    _is_answered = False
    _framing_bytes = 0
    """Bytes of the body in chunks that are not its content."""
    _is_paused = False
    """Whether reading is paused."""
    _chunks: aiohttp.StreamReader | None = None
    """The body, if it comes in chunks."""
    _fault: EndlessFraming | None = None
    """The error with which this body ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chunk_bytes: int) -> None:
        super().__init__(loop)
        self._chunk_bytes = chunk_bytes

    def pause_reading(self) -> None:
        self._is_paused = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        self._is_paused = False
        super().resume_reading(resume_parser)

    def set_response_params(self, **options: Any) -> None:
        """Begins to read the answer to a request."""
        self._interim, self._head_bytes, self._is_answered = 0, 0, False
        self._framing_bytes, self._chunks = 0, None
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        if len(data) <= HTTP_PIECE_BYTES_MAX:  # also b"", with which aiohttp resumes its parser
            self._parse(data)
            return
        for start in range(0, len(data), HTTP_PIECE_BYTES_MAX):
            if not self.is_connected():
                return
            self._parse(data[start : start + HTTP_PIECE_BYTES_MAX])

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends the body with the fault because of which the connection was closed. For aiohttp a body that ends within
        a chunk is cut off, which would be told to a reader that did not wait at that moment."""
        super().connection_lost(exc)
        if self._fault is not None and self._chunks is not None:
            self._chunks.set_exception(self._fault)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Takes a head that was parsed, and its body."""
        if not self.is_connected():
            return
        if self._is_answered:
            self._give_up("sent an answer without a request")
        elif _is_interim(data[0].code):
            self._interim += 1
            if self._interim > HTTP_INTERIM_ITEMS_MAX:
                self._give_up(f"sent more than {HTTP_INTERIM_ITEMS_MAX} interim responses before its answer")
        else:
            self._is_answered = True
            self._chunks = data[1] if data[0].chunked else None
            super().feed_data(data, size)

    def _parse(self, piece: bytes) -> None:
        body = self._chunks
        before = body.total_bytes if body is not None else 0
        super().data_received(piece)
        if not self._is_answered:
            self._head_bytes += len(piece)
            if self._head_bytes > HTTP_HEADS_BYTES_MAX:
                self._give_up(f"sent heads of more than {HTTP_HEADS_BYTES_MAX // 2**10} KiB before its answer")
        elif body is not None:
            self._framing_bytes += len(piece) - (body.total_bytes - before)
            most = HTTP_FRAMING_BYTES_MAX + body.total_bytes // self._chunk_bytes
            # While reading is paused, the parser keeps content that is not in `total_bytes` yet.
            if self._framing_bytes > most and not self._is_paused:
                self._give_up("sent its answer in chunks that are too small", body)

    def _give_up(self, reason: str, body: aiohttp.StreamReader | None = None) -> None:
        """Closes the connection. The request that waits for its answer, or reads its body, fails with
        EndlessFraming."""
        if self.transport is not None and self.is_connected():
            error = EndlessFraming(reason)
            self.set_exception(error)
            if body is not None and not body.is_eof():
                self._fault = error
                body.set_exception(error)
            self.transport.abort()


def compression_of(response: aiohttp.ClientResponse) -> str | None:
    """The compression of an answer, which no client here asks for or reverses; None without one. Servers name other
    things there, too, for plain bodies: `utf-8`, `aws-chunked`."""
    given = response.headers.get(hdrs.CONTENT_ENCODING, "").lower()
    return next((name for name in _COMPRESSIONS if name in given), None)


def _is_interim(status: int) -> bool:
    """Whether another response follows. 101 is an answer: it gives the connection to another protocol."""
    return 100 <= status < 200 and status != 101
