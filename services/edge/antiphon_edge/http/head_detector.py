"""Detection of a head that begins in the same read as the end of another request.

aiohttp's parser does not tell where in its data a request ended, or whether bytes followed the request. Without this
module, the beginning of a head behind a request would have no timeout, and count towards no limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import StreamReader, hdrs
from aiohttp.http import RawRequestMessage

_HEAD_END = b"\r\n\r\n"  # the end of chunks, too, with and without a trailer
_NEWLINES = b"\r\n"

Request = tuple[RawRequestMessage, StreamReader]


class HeadDetector:
    """Counts the bytes of incomplete heads in the data of one connection."""

    def __init__(self) -> None:
        self.body_bytes = 0
        """How many of the next bytes belong to the body of the last request, by its Content-Length."""
        self._chunks: StreamReader | None = None  # the last request's body in chunks, while it is incomplete
        self._end = b""  # the last three bytes of an incomplete head

    def head_bytes(self, data: bytes, requests: Sequence[Request]) -> int:
        """Returns how many bytes at the end of `data` belong to an incomplete head.

        Call it after the parser was fed. `requests` are those whose heads `data` completed. The number is exact, but an
        upper bound behind requests that hardly any client sends: with two blank lines before them, or pipelined behind
        a body in chunks."""
        if not requests and not self.body_bytes and self._chunks is None:
            self._end = (self._end + data[-3:])[-3:]
            return len(data)
        piece = self._behind_requests(data, requests).lstrip(_NEWLINES)  # a parser skips empty lines before a head
        self._end = piece[-3:]
        return len(piece)

    def _behind_requests(self, data: bytes, requests: Sequence[Request]) -> bytes:
        """The bytes of `data` behind the last request; none while the body of that request is incomplete."""
        begin = self.body_bytes
        if not requests and self._chunks is None:
            self.body_bytes = max(begin - len(data), 0)
            return data[begin:]
        if requests:
            message, body = requests[-1]
            length = _length_of(message)
            self._chunks = body if message.chunked else None
            self.body_bytes = length - body.total_raw_bytes if length else 0
            if message.upgrade or self.body_bytes:
                return b""
            if length:
                data = self._end + data
                return data[_end_of(requests, data, begin) :]
        if self._chunks is not None and not self._chunks.is_eof():
            return b""
        self._chunks = None
        return data.rpartition(_HEAD_END)[2]  # the end of a head or of chunks; no incomplete head has these bytes


def _end_of(requests: Sequence[Request], data: bytes, begin: int) -> int:
    """The index in `data` at which the last request ends. `begin` is where the first one begins.

    A search for the end of a head never finds it too late, whatever bytes a client puts into a body. So the index may
    be too small for unusual requests, and is never too large."""
    for message, _ in requests:
        found = data.find(_HEAD_END, begin)
        if found < 0:
            return begin
        begin = found + len(_HEAD_END) + _length_of(message)
    return begin


def _length_of(message: RawRequestMessage) -> int:
    return int(message.headers.get(hdrs.CONTENT_LENGTH, 0))
