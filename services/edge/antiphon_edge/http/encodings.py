"""Encodings of request bodies: none, gzip (or x-gzip), deflate or zstd.

The edge decodes bodies itself: aiohttp does not know x-gzip, and its zstd decoder allows any window. A decoder does not
decode: it yields the next step, which returns a piece of limited size, and is sent that piece. So its caller decides in
which thread a step runs (http/decoding.py), and the size limit of a body applies before more of it is decoded.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Protocol

from aiohttp import hdrs, web

from antiphon_core import offload
from antiphon_edge.http.http_errors import rejection
from antiphon_edge.http.zstd_frames import buffer_bytes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPT = {"Accept-Encoding": "gzip, deflate, zstd"}
CODE = "unsupported_content_encoding"
MESSAGE = "A request body must have no 'Content-Encoding', or one of gzip, deflate or zstd."

MEMBERS_MAX = 1_000
"""How many gzip members or zstd frames a body may have. Each of them costs a new decoder, however small it is."""
ZSTD_WINDOW_LOG_MAX = 23
"""A zstd window of 8 MiB, the largest that HTTP allows (RFC 9659, section 3). The decoder allocates the window that
the first bytes of a frame ask for, up to 2 GiB."""
ZSTD_WINDOW_BYTES_MAX = 2**ZSTD_WINDOW_LOG_MAX

_GZIP_WBITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8
"""The lower half of the first byte of a zlib stream (RFC 1950). Some clients send raw deflate data instead."""


Step = Callable[[int], bytes]
"""Decodes the next piece, which has at most the given number of bytes. It may run in another thread, but never two
steps of a body at once. ValueError: the data is not in its encoding."""
Steps = Generator[Step, bytes, None]
"""The steps of decoding some data. Each is to be run, and its piece to be sent."""
Reserve = Callable[[int], None]
"""Counts bytes that a decoder is about to allocate, until its body is decoded. It raises what the request is to be
rejected with."""


class BodyDecoder(Protocol):
    """Decodes one body, piece by piece."""

    def feed(self, data: bytes) -> Steps:
        """The steps of decoding more of the body. ValueError: the body has too many members."""

    def end(self) -> None:
        """Checks that the body is complete. ValueError: it is not."""


class _Stream(Protocol):
    """The decompressor of one gzip member, zlib stream or zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def steps(self, data: bytes) -> Steps: ...


class _Zlib:
    """Decodes one gzip member or deflate stream."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def steps(self, data: bytes) -> Steps:
        while (yield partial(_decompress, self._inner, data)) and not self._inner.eof:
            data = self._inner.unconsumed_tail


class _Zstd:
    """Decodes one zstd frame, once its header is complete and its buffer is reserved."""

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self._head: bytes | None = b""
        """The beginning of the frame, until its header is complete."""
        self._inner = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX})

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def steps(self, data: bytes) -> Steps:
        if self._head is not None:
            data = self._head + data
            size = buffer_bytes(data)
            self._head = data if size is None else None
            if size is None:
                return
            self._reserve(min(size, ZSTD_WINDOW_BYTES_MAX))  # the decompressor rejects larger ones
        while (yield partial(_decompress, self._inner, data)) and not (self._inner.eof or self._inner.needs_input):
            data = b""


class _Largest:
    """Reserves the largest buffer of the frames of a body: one frame is decoded after another."""

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self._held = 0

    def __call__(self, size: int) -> None:
        if size > self._held:
            self._reserve(size - self._held)
            self._held = size


class _Members:
    """Decodes gzip members or zstd frames, one behind another."""

    def __init__(self, make: Callable[[bytes], _Stream], *, members_max: int = MEMBERS_MAX) -> None:
        """`make` makes the decompressor of the member that begins with the given bytes."""
        self._make = make
        self._members_left = members_max
        self._stream: _Stream | None = None

    def feed(self, data: bytes) -> Steps:
        while data:
            stream = self._stream = self._stream or self._next(data)
            yield from stream.steps(data)
            data = stream.unused_data if stream.eof else b""
            if stream.eof:
                self._stream = None

    def end(self) -> None:
        if self._stream is not None:
            raise ValueError("the body ends early")

    def _next(self, data: bytes) -> _Stream:
        self._members_left -= 1
        if self._members_left < 0:
            raise ValueError("the body has too many members")
        return self._make(data)


class _Decompressor(Protocol):
    def decompress(self, data: bytes, most: int, /) -> bytes: ...


def _decompress(inner: _Decompressor, data: bytes, most: int) -> bytes:
    """The step of all compressed bodies."""
    try:
        with offload.without_gil():
            return inner.decompress(data, most)
    except (zlib.error, zstd.ZstdError) as error:
        raise ValueError("the body is not in its encoding") from error


def _deflate(data: bytes) -> _Stream:
    return _Zlib(zlib.MAX_WBITS if data[0] & 0xF == _ZLIB_METHOD else -zlib.MAX_WBITS)


def _gzip(_: Reserve) -> BodyDecoder:
    return _Members(lambda _: _Zlib(_GZIP_WBITS))


def _zstd(reserve: Reserve) -> BodyDecoder:
    largest = _Largest(reserve)
    return _Members(lambda _: _Zstd(largest))


_PLAIN = ("", "identity")
_DECODERS: Mapping[str, Callable[[Reserve], BodyDecoder]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,  # the same as gzip: RFC 9110, section 8.4.1.3
    "deflate": lambda _: _Members(_deflate, members_max=1),
    "zstd": _zstd,
}


def decoder_of(request: web.Request, reserve: Reserve) -> BodyDecoder | None:
    """Makes the decoder for the body of a request with `Content-Encoding`, which `is_readable`; None if the header says
    that the body is not encoded. It calls `reserve` before it allocates a zstd window. Those of gzip and deflate have
    32 KiB, and are not counted."""
    encoding = _encoding_of(request)
    return None if encoding in _PLAIN else _DECODERS[encoding](reserve)


def is_readable(request: web.Request) -> bool:
    """Whether the body of a request with `Content-Encoding` is in one of the encodings, or in none. A list with an
    empty element such as `gzip,` counts as several."""
    return _encoding_of(request) in (*_PLAIN, *_DECODERS)


def unreadable() -> web.Response:
    """The answer to a body in another encoding, with the accepted ones in `Accept-Encoding`."""
    return rejection(415, CODE, MESSAGE, ACCEPT)


def _encoding_of(request: web.Request) -> str:
    return ",".join(request.headers.getall(hdrs.CONTENT_ENCODING)).strip().lower()
