"""Writing a stream of server-sent events: whole frames only, and a comment when nothing else was sent for a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from aiohttp import web

from antiphon_core.events import DONE_FRAME, KEEP_ALIVE_FRAME

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
        self._written_at = 0.0
        self.response = web.StreamResponse(headers=_HEADERS)

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        self._written_at = asyncio.get_running_loop().time()
        self._keeper = asyncio.create_task(self._keep_alive(), name="sse keep-alive")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._keeper.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await self._keeper
        if exc_type is None:
            await self.response.write(DONE_FRAME)
            await self.response.write_eof()

    async def write(self, frames: bytes) -> None:
        """Sends frames in one piece. ConnectionError: the client is gone."""
        self._written_at = asyncio.get_running_loop().time()
        await self.response.write(frames)

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            silent_s = loop.time() - self._written_at
            if silent_s >= self._keep_alive_s:
                await self.write(KEEP_ALIVE_FRAME)
            else:
                await asyncio.sleep(self._keep_alive_s - silent_s)
