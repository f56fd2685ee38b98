"""The requests that handlers work on, for a shutdown that waits for them.

aiohttp's own shutdown waits for each connection up to its timeout, cancels the handler, and then waits for as long
again (`RequestHandler.shutdown`), so that a drain of 30 s took 60 s.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from antiphon_edge.http.http_errors import Handler


class RequestsInProgress:
    """Counts requests. A WebSocket is one request until it is closed."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()

    def wrap(self, handler: Handler) -> Handler:
        """Wraps a handler: its requests count until they are answered."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self.count += 1
            try:
                return await handler(request)
            finally:
                self.count -= 1
                if not self.count:
                    self._none.set()

        return handle

    async def wait_end(self, timeout_s: float) -> None:
        """Returns when there are no requests, or after the timeout."""
        if not self.count:
            return
        self._none.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._none.wait()
