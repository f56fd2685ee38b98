"""Writing a stream of server-sent events: whole frames only, a comment when nothing else was sent for a while, and an
end for clients that do not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from aiohttp import web

from antiphon_core.events import DONE_FRAME, KEEP_ALIVE_FRAME
from antiphon_edge.door import connections

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would otherwise hold events back
}


class EventStream:
    """An open stream to one client. Use as an async context manager; leaving it without an error sends [DONE]."""

    def __init__(self, request: web.Request, *, keep_alive_s: float) -> None:
        self._request = request
        self._keep_alive_s = keep_alive_s
        self._write_timeout_s = connections.bounds_of(request).write_timeout_s
        self._loop = asyncio.get_running_loop()
        self._written_at = 0.0
        self._waiting_since: float | None = None  # a write that has not returned yet
        self.response = web.StreamResponse(headers=_HEADERS)

    async def __aenter__(self) -> Self:
        connections.bound_stream(self._request)
        await self.response.prepare(self._request)
        self._written_at = self._loop.time()
        self._keeper = asyncio.create_task(self._keep(), name="sse keep-alive")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        try:
            if exc_type is None:
                await self.write(DONE_FRAME)
                self._waiting_since = self._loop.time()
                await self.response.write_eof()
        finally:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await self._keeper

    async def write(self, frames: bytes) -> None:
        """Sends frames in one piece. ConnectionError: the client is gone."""
        self._written_at = self._waiting_since = self._loop.time()
        await self.response.write(frames)
        self._waiting_since = None

    async def _keep(self) -> None:
        """Breaks the silence, and watches the writer: a timeout around each write would cost more than the write."""
        while True:
            now = self._loop.time()
            if self._waiting_since is not None:
                rest_s = self._waiting_since + self._write_timeout_s - now
                if rest_s <= 0:
                    connections.cut(self._request)
                    return
            else:
                rest_s = self._written_at + self._keep_alive_s - now
                if rest_s <= 0:
                    await self._comment()
                    continue
            await asyncio.sleep(min(rest_s, self._write_timeout_s))

    async def _comment(self) -> None:
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self.write(KEEP_ALIVE_FRAME)
        except TimeoutError:
            connections.cut(self._request)
            raise ConnectionResetError("The client does not read its stream.") from None
