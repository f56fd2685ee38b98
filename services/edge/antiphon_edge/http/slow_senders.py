"""Read timeouts for requests whose client stops sending in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader, web


class BodyTimeout(web.RequestPayloadError):
    """The read timeout of a request body."""


class SenderWatch:
    """The read timeout of one connection, from the moment at which the connection is made.

    The first head must be complete `limit_s` after the connection was made, each later head `limit_s` after its first
    piece, even if that piece arrived together with another request. Each piece of a body must arrive `limit_s` after
    the piece before. A timeout in a head calls `hang_up`, but not before the requests ahead of it are answered
    (`is_answering`). A timeout in a body makes reading the body raise BodyTimeout. Between two requests there is no
    timeout."""

    def __init__(self, limit_s: float, *, is_answering: Callable[[], bool], hang_up: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._is_answering = is_answering
        self._hang_up = hang_up
        self._awaits_head = True  # a head has begun, or is the first of the connection
        self._body: StreamReader | None = None  # of the last request, while it is incomplete
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(limit_s, self._check)

    def note_received(self, data: bytes, body: StreamReader | None, head_bytes: int) -> None:
        """Notes that `data` was read. `body` is the body of the request whose head `data` completed, if it did.
        `head_bytes` at the end of `data` belong to an incomplete head. `data` is empty when aiohttp's parser continues
        with bytes that it had buffered."""
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
        """Ends the timeout. The watch drops the connection, which refers to it: a cycle would keep both, with the bytes
        that the connection has read, until the garbage collector runs."""
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
