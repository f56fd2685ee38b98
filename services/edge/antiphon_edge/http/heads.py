"""Size limits for the heads of requests that arrive in several pieces. Before its head is complete a request is not
authenticated, so these limits are small.

A head that arrives in one piece is parsed at once, and is not counted. The beginning of a head that arrives in the same
read as the end of another request is counted. aiohttp's parser does not tell where in its data a request ended, or
whether bytes followed the request: `HeadDetector` finds out. aiohttp's own limits, for each header and for their
number, would allow a head of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import StreamReader, hdrs
from aiohttp.http import RawRequestMessage

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX
from antiphon_edge.http.http_errors import raw_rejection

HEAD_REJECTED = raw_rejection(
    431,
    "header_too_large",
    f"The head of the request has more than {HEAD_BYTES_MAX} bytes, or the server receives too many heads at once.",
)
_HEAD_END = b"\r\n\r\n"  # the end of chunks, too, with and without a trailer
_NEWLINES = b"\r\n"

Request = tuple[RawRequestMessage, StreamReader]


class HeadBound:
    """Counts the bytes of the incomplete head of one connection."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._peer = ""
        self._size = 0

    def try_add(self, peer: str, size: int) -> bool:
        """Counts a piece of a head. Returns False if it exceeds a limit."""
        if self._size + size > HEAD_BYTES_MAX or self._budget.take(peer, size) is not None:
            return False
        self._peer = peer
        self._size += size
        return True

    def clear(self) -> None:
        """Gives the counted bytes back: the head is complete, or the connection ends."""
        if self._size:
            self._budget.give_back(self._peer, self._size)
            self._size = 0


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
