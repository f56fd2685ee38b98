"""Read timeouts: gives up a request whose client stops in the middle, and closes the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader, web


class BodyTimeout(web.RequestPayloadError):
    """Nothing of a body came for too long."""


class SenderWatch:
    """Watches one connection, from when it is made, for a client that owes the rest of a request.

    All of a head must have come `limit_s` after its first piece, and each piece of a body so long after the last. Who
    reads a body that does not come is told by BodyTimeout. Where there is no head nobody waits for an answer yet:
    `hang_up` is called."""

    def __init__(self, limit_s: float, hang_up: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._hang_up = hang_up
        self._has_piece = False
        self._owes_head = True  # a new connection owes its first head
        self._body: StreamReader | None = None  # of the last request, while it is not whole
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(limit_s, self._look)

    def came(self, data: bytes, body: StreamReader | None) -> None:
        """`data` was read; `body` is that of the request whose head it completed, if it did. Without data the reader
        went on with what it had."""
        is_piece_of_head = body is None and self._body is None
        if body is None:
            body = self._body
        self._body = body if body is not None and not body.is_eof() else None
        if data:
            self._has_piece = is_piece_of_head
            if not (is_piece_of_head and self._owes_head):  # a further piece of a head does not extend its timeout
                self._heard_at = self._loop.time()
            self._owes_head = is_piece_of_head

    @property
    def heard_at_s(self) -> float:
        """When something came that brought a request on, by the loop's clock."""
        return self._heard_at

    @property
    def is_in_head(self) -> bool:
        """Whether the last piece that came was one of a head that is not complete."""
        return self._has_piece

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        """One timer serves a connection for as long as it is open, whatever comes over it."""
        due = self._heard_at + self._limit_s
        if not self._owes_head and self._body is None:
            self._timer = self._loop.call_later(self._limit_s, self._look)
        elif self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look)
        elif self._body is not None:
            self._body.set_exception(BodyTimeout("the rest of the body did not come"))
        else:
            self._hang_up()
