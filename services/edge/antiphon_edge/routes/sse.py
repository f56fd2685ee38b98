"""Server-sent events to one client, with keep-alive comments, backpressure and a write timeout.

`receive` writes frames to the socket without waiting. aiohttp writes the headers of the answer and its end. The chunks
of HTTP/1.1 in between are written here, because aiohttp's `write` is a coroutine and would cost a task switch for each
batch. When the socket's buffer is full, the flow is paused until the client has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from aiohttp import HttpVersion11, web

from antiphon_core import events
from antiphon_core.events import DONE_FRAME, KEEP_ALIVE_FRAME
from antiphon_core.flow import Flow
from antiphon_core.limits import BATCH_BYTES_MAX
from antiphon_core.ports.translator import Batch
from antiphon_core.telemetry import metrics
from antiphon_edge.http import connections

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would otherwise hold events back
}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_OPEN = metrics.STREAMS_OPEN.of("sse")


class EventStream:
    """The streamed answer to one request. Its headers are sent with the first batch, or by `open_after`. Always call
    `stop` at the end, even after an error."""

    def __init__(
        self,
        request: web.Request,
        *,
        keep_alive_s: float,
        transform: Callable[[Batch], bytes] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        has_keep_alive_events: bool = False,
    ) -> None:
        """`transform` makes other frames for the client from a batch. `has_keep_alive_events`: `keepalive` events are
        sent instead of comments."""
        self._has_keep_alive_events = has_keep_alive_events
        self._sent = b""  # the last frames, for keep-alive events
        self.flow = Flow()
        self.response = web.StreamResponse(headers={**_HEADERS, **headers})
        self._request = request
        self._transform = transform
        self._keep_alive_s = keep_alive_s
        self._write_timeout_s = connections.bounds_of(request).write_timeout_s
        self._loop = asyncio.get_running_loop()
        self._is_chunked = request.version >= HttpVersion11
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []  # frames that came before the headers were sent
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._written_at = 0.0
        self._paused_at: float | None = None
        self._is_open = False
        self._cut_reason = "client_left"

    def open_after(self, seconds: float) -> None:
        """Sends the headers after a time, unless an event is sent before."""
        self._timer = self._loop.call_later(seconds, self._open)

    def receive(self, batch: Batch) -> None:
        """Sends the events of a batch to the client."""
        if self._transform is not None:
            frames = self._transform(batch)
        elif batch.final is not None:  # only a terminal event can be one that clients do not get
            frames = events.for_clients(batch.frames)
        else:
            frames = batch.frames
        if frames:
            self._sent = frames
            if self._transport is not None:
                self._send(self._transport, frames)
                return
            self._early.append(frames)
            if self._opening is None:
                self._open()

    async def end(self) -> None:
        """Sends [DONE] and the end of the answer. ConnectionError: the client is gone."""
        self._open()
        assert self._opening is not None  # noqa: S101 - `_open` made it
        await self._opening
        await self.response.write_eof(DONE_FRAME)
        self._cut_reason = ""

    def stop(self) -> None:
        """Stops timers and callbacks, and counts the stream as ended."""
        if self._is_open:
            self._is_open = False
            _OPEN.add(-1)
            if self._cut_reason:
                metrics.STREAMS_CUT.of(self._cut_reason).add()
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None and not self._opening.cancel() and not self._opening.cancelled():
            self._opening.exception()  # retrieved, so that asyncio does not log that the client has left
        connections.watch_writing(self._request, None)

    def _open(self) -> None:
        if self._opening is None:
            self._opening = self._loop.create_task(self._send_head(), name="sse head")

    async def _send_head(self) -> None:
        connections.bound_stream(self._request)
        await self.response.prepare(self._request)
        self._is_open = True
        _OPEN.add()
        transport = self._request.transport
        self._written_at = self._loop.time()
        connections.watch_writing(self._request, self)
        while transport is not None and self._early:
            self._send(transport, self._next_early())
            if self._early:
                await asyncio.sleep(0)  # each opening event repeats the request: 10 MiB take 15 ms to write
        self._transport = transport
        self._watch()

    def _next_early(self) -> bytes:
        """The frames that came first; small ones together."""
        count, size = 1, len(self._early[0])
        while count < len(self._early) and size + len(self._early[count]) <= BATCH_BYTES_MAX:
            size += len(self._early[count])
            count += 1
        taken, self._early = self._early[:count], self._early[count:]
        return b"".join(taken)

    def _send(self, transport: asyncio.Transport, frames: bytes) -> None:
        self._written_at = self._loop.time()
        if transport.is_closing():
            return
        if not self._is_chunked:
            transport.write(frames)
        elif len(frames) > BATCH_BYTES_MAX:  # too many to copy
            transport.writelines([b"%x\r\n" % len(frames), frames, b"\r\n"])
        else:
            transport.write(b"%x\r\n%b\r\n" % (len(frames), frames))

    def pause_writing(self) -> None:
        """Callback: the socket's buffer is full."""
        self._paused_at = self._loop.time()
        self.flow.pause(self)

    def resume_writing(self) -> None:
        """Callback: the client has read most of the buffer."""
        self._paused_at = None
        self.flow.resume(self)

    def _watch(self) -> None:
        """Sends keep-alive comments, and disconnects a client that exceeds the write timeout. One timer serves a stream
        for its whole life. It is set to the earliest time at which there may be something to do."""
        now = self._loop.time()
        if self._paused_at is not None:
            due = self._paused_at + self._write_timeout_s
            if now >= due:
                self._cut_reason = "slow_reader"
                connections.cut(self._request)
                return
        else:
            due = self._written_at + self._keep_alive_s
            if now >= due:
                if self._transport is not None:
                    self._send(self._transport, self._keep_alive_frame())
                due = now + self._keep_alive_s
        self._timer = self._loop.call_at(min(due, now + self._write_timeout_s), self._watch)

    def _keep_alive_frame(self) -> bytes:
        return events.keep_alive_event(self._sent) if self._has_keep_alive_events else KEEP_ALIVE_FRAME
