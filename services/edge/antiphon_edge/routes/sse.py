"""A stream of server-sent events to one client: whole frames only, a comment after a silence, and an end for clients
that do not read.

The stream is a receiver: frames are written to the socket within the call that brings them, the head of the answer
included. aiohttp writes that and the end. In between the chunks of HTTP/1.1 are written here, because aiohttp's `write`
is a coroutine and would cost a task switch for each batch. When the socket's buffer is full, the flow is paused until
the client has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiohttp import HttpVersion11, web

from antiphon_core import events
from antiphon_core.events import DONE_FRAME, KEEP_ALIVE_FRAME
from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch
from antiphon_edge.door import connections

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would otherwise hold events back
}


class EventStream:
    """The answer to one request. It begins with the first batch, or after `open_after`; `stop` must be called at the
    end, whatever happened."""

    def __init__(
        self, request: web.Request, *, keep_alive_s: float, shown: Callable[[bytes], bytes] = events.for_clients
    ) -> None:
        """`shown` gives the frames that the client is sent for those of a batch."""
        self.flow = Flow()
        self.response = web.StreamResponse(headers=_HEADERS)
        self._request = request
        self._shown = shown
        self._keep_alive_s = keep_alive_s
        self._write_timeout_s = connections.bounds_of(request).write_timeout_s
        self._loop = asyncio.get_running_loop()
        self._is_chunked = request.version >= HttpVersion11
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._timer: asyncio.TimerHandle | None = None
        self._written_at = 0.0
        self._paused_at: float | None = None

    def open_after(self, seconds: float) -> None:
        """Begins the answer without an event, if none comes for so long."""
        self._timer = self._loop.call_later(seconds, self._open)

    def receive(self, batch: Batch) -> None:
        """Sends what a batch shows to the client."""
        frames = self._shown(batch.frames)
        if frames:
            self._write(frames)

    async def end(self) -> None:
        """Sends [DONE] and the end of the answer. ConnectionError: the client is gone."""
        self._write(DONE_FRAME)
        await self.response.write_eof()

    def stop(self) -> None:
        """Lets go of the connection."""
        if self._timer is not None:
            self._timer.cancel()
        connections.watch_writing(self._request, None)

    def _open(self) -> None:
        """Sends the head of the answer. A client that is gone is found by `end`, or its handler is cancelled."""
        if self._is_open:
            return
        self._is_open = True
        connections.bound_stream(self._request)
        with suppress(ConnectionError):
            _run_through(self.response.prepare(self._request))
        self._transport = self._request.transport
        self._written_at = self._loop.time()
        connections.watch_writing(self._request, self)
        self._watch()

    def _write(self, frames: bytes) -> None:
        self._open()
        self._written_at = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(frames), frames) if self._is_chunked else frames)

    def pause_writing(self) -> None:
        """The socket's buffer is full."""
        self._paused_at = self._loop.time()
        self.flow.pause(self)

    def resume_writing(self) -> None:
        """The client has read most of it."""
        self._paused_at = None
        self.flow.resume(self)

    def _watch(self) -> None:
        """Sends a comment after a silence, and cuts off a client that does not read. One timer serves a stream for as
        long as it is open: it is set for the earliest moment at which there may be something to do."""
        now = self._loop.time()
        if self._paused_at is not None:
            due = self._paused_at + self._write_timeout_s
            if now >= due:
                connections.cut(self._request)
                return
        else:
            due = self._written_at + self._keep_alive_s
            if now >= due:
                self._write(KEEP_ALIVE_FRAME)
                due = now + self._keep_alive_s
        self._timer = self._loop.call_at(min(due, now + self._write_timeout_s), self._watch)


def _run_through(work: Coroutine[Any, Any, object]) -> None:
    """Runs a coroutine that waits for nothing, within this call. aiohttp's `prepare` only calls the signals of the
    application, and none of them waits."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("the head of an answer waited for something")
