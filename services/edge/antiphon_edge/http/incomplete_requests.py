"""Limits for requests that arrive in several pieces: the size of a head, and the time until the next piece comes.

Before its head is complete a request is not authenticated, so the limits of heads are small. A head that arrives in one
piece is parsed at once, and is not counted. The beginning of a head that arrives in the same read as the end of another
request is counted. aiohttp's parser does not tell where in its data a request ended, or whether bytes followed the
request: `HeadDetector` finds out. aiohttp's own limits, for each header and for their number, would allow a head of
8 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aiohttp import StreamReader, hdrs, web
from aiohttp.http import RawRequestMessage

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX

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
            length = int(message.headers.get(hdrs.CONTENT_LENGTH, 0))
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
        begin = found + len(_HEAD_END) + int(message.headers.get(hdrs.CONTENT_LENGTH, 0))
    return begin


class BodyTimeout(web.RequestPayloadError):
    """The read timeout of a request body."""


class SenderWatch:
    """The limits of the incomplete requests of one connection, from the moment at which it is made.

    The first head must be complete `limit_s` after the connection was made, each later head `limit_s` after its first
    piece, even if that piece arrived together with another request. Each piece of a body must arrive `limit_s` after
    the piece before. A timeout in a head calls `hang_up`, but not before the requests ahead of it are answered
    (`is_answering`). A timeout in a body makes reading the body raise BodyTimeout. Between two requests there is no
    timeout."""

    def __init__(
        self, limit_s: float, heads: ByteBudget, *, is_answering: Callable[[], bool], hang_up: Callable[[], None]
    ) -> None:
        """`heads` counts the bytes of the incomplete heads of all connections."""
        self._limit_s = limit_s
        self._detector = HeadDetector()
        self._head = HeadBound(heads)
        self._is_answering = is_answering
        self._hang_up = hang_up
        self._awaits_head = True  # a head has begun, or is the first of the connection
        self._body: StreamReader | None = None  # of the last request, while it is incomplete
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(limit_s, self._check)

    @property
    def body_bytes(self) -> int:
        """How many of the next bytes belong to the body of the last request, by its Content-Length."""
        return self._detector.body_bytes

    def note_received(self, data: bytes, requests: Sequence[Request], peer: str, *, is_malformed: bool) -> bool:
        """Notes that `data` was read, and completed the heads of `requests`; the last of them `is_malformed` if the
        parser has failed. Returns False if an incomplete head exceeds a limit. `data` is empty when aiohttp's parser
        continues with bytes that it had buffered."""
        head_bytes = 0 if is_malformed else self._detector.head_bytes(data, requests)
        self._note_time(data, requests[-1][1] if requests else None, head_bytes)
        if requests:
            self._head.clear()
        return not head_bytes or self._head.try_add(peer, head_bytes)

    def _note_time(self, data: bytes, body: StreamReader | None, head_bytes: int) -> None:
        """Notes that `data` was read now. `body` is the body of the request whose head `data` completed, if it did.
        `head_bytes` at the end of `data` belong to an incomplete head."""
        continues_head = self._awaits_head and body is None and self._body is None
        if body is None:
            body = self._body
        self._body = body if body is not None and not body.is_eof() else None
        if data:
            if not continues_head:  # a further piece of a head does not extend its timeout
                self._heard_at = self._loop.time()
            self._awaits_head = head_bytes > 0

    @property
    def heard_at_s(self) -> float:
        """When the last data arrived that counts for the timeout, on the loop's clock."""
        return self._heard_at

    def stop(self) -> None:
        """Ends the timeout, and gives the counted bytes back. Drops the connection, which refers to the watch: a cycle
        would keep both, with the bytes that the connection has read, until the garbage collector runs."""
        self._head.clear()
        self._timer.cancel()
        self._body = None
        self._is_answering, self._hang_up = lambda: False, lambda: None

    def _check(self) -> None:
        """Checks the timeout, and sets the timer again. One timer serves a connection for its whole life."""
        due = self._heard_at + self._limit_s
        if self._body is None and (not self._awaits_head or self._is_answering()):
            self._timer = self._loop.call_later(self._limit_s, self._check)
        elif self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._check)
        elif self._body is not None:
            self._body.set_exception(BodyTimeout("the rest of the body did not arrive in time"))
        else:
            self._hang_up()
