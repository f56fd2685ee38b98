"""One connection of HTTP/1.1 to a server, on which one request is answered at a time.

The body of an answer is pushed: its receiver is called within the read that brought a piece of it, without a task
switch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import cast

from antiphon_translator.engines.http_response import HttpError, HttpResponse

Receive = Callable[[bytes], bool]
"""Takes the next piece of a body. False: no more of it is wanted."""


class HttpConnection(asyncio.Protocol):
    """`close` must be called after each request, whatever happened."""

    def __init__(self, on_free: Callable[[HttpConnection], None]) -> None:
        """`on_free` is called when a request is over; `is_open` says whether there can be another one."""
        self.idle_since = 0.0
        self._on_free = on_free
        self._transport: asyncio.Transport | None = None
        self._response: HttpResponse | None = None
        self._receive: Receive | None = None
        self._context = Context()
        """That of the task that waits for the body: what `receive` logs is of its request."""
        self._held: list[bytes] = []
        """What came of the body before somebody asked for it."""
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def status(self) -> int:
        return self._response.status if self._response is not None else 0

    async def send(self, request: bytes) -> None:
        """Sends a request, and returns when the head of its answer has come. HttpError."""
        response = self._response = HttpResponse()
        self._receive, self._error = None, None
        if self._transport is None or self._transport.is_closing():
            raise HttpError("the server closed the connection")
        self._transport.write(request)
        await self._wait_until(lambda: response.status > 0)

    async def read(self) -> bytes:
        """The whole body. HttpError."""
        pieces: list[bytes] = []

        def keep(piece: bytes) -> bool:
            pieces.append(piece)
            return True

        await self.pass_on(keep)
        return b"".join(pieces)

    async def pass_on(self, receive: Receive) -> None:
        """Calls `receive` with each piece of the body, and returns at its end, or when no more is wanted. Raises what
        `receive` raises, and HttpError."""
        response = self._response
        self._receive, self._context = receive, copy_context()
        held, self._held = self._held, []
        if held:
            self._pass(b"".join(held))
        await self._wait_until(lambda: self._receive is None or (response is not None and response.is_complete))

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Ends the request. A connection whose answer has not come in whole is closed: the server stops."""
        response, self._response, self._receive = self._response, None, None
        if response is not None and response.is_complete and response.can_reuse_connection:
            self.resume_reading()
        else:
            self.abort()
        self._held.clear()
        self._on_free(self)

    def abort(self) -> None:
        """Cuts the connection."""
        if self._transport is not None:
            self._transport.abort()

    # ---- calls of the event loop ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's classes

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:  # nothing was asked
            self._lose(HttpError("the server sent what was not asked for"))
            return
        try:
            had_head = response.status > 0
            body = response.feed(data)
        except HttpError as error:
            self._lose(error)
            return
        if body and self._receive is not None:
            self._pass(body)
        elif body:
            self._held.append(body)
        if response.is_complete or not had_head:
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        try:
            if self._response is not None:
                self._response.end()
        except HttpError as broken_off:
            self._error = self._error or broken_off
        self._wake()

    def _pass(self, piece: bytes) -> None:
        """A bug of the receiver ends its request, and is raised there."""
        assert self._receive is not None  # noqa: S101 - the callers looked
        try:
            if self._context.run(self._receive, piece):
                return
        except Exception as error:  # noqa: BLE001 - raised again by `pass_on`
            self._error = error
        self._receive = None
        self._wake()

    def _lose(self, error: HttpError) -> None:
        self._error = error
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait_until(self, is_reached: Callable[[], bool]) -> None:
        while self._error is None and not is_reached():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error
