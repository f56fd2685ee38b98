"""Streams that are pulled: the messages of one call that wait for their reader, with backpressure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from antiphon_core.flow import Flow
from antiphon_http2.client.client import GrpcCall

UNREAD_BYTES_MAX = 64 * 2**10  # beyond, nothing is read from the connection for this call


class UnreadMessages:
    """The messages that one call has received, and its reader has not. The call is started with `receive` and `flow`.
    For one event loop."""

    def __init__(self) -> None:
        self.flow = Flow()
        self._messages: deque[bytes] = deque()
        self._unread_bytes = 0
        self._changed = asyncio.Event()

    def receive(self, messages: Sequence[bytes]) -> None:
        self._messages.extend(messages)
        self._unread_bytes += sum(map(len, messages))
        if self._unread_bytes > UNREAD_BYTES_MAX:
            self.flow.pause(self)
        self._changed.set()

    async def read(self, call: GrpcCall) -> AsyncGenerator[bytes, None]:
        """Yields the messages of `call`, and raises its GrpcError behind them. Closing the generator cancels the
        call."""
        ending = asyncio.ensure_future(call.wait_end())
        ending.add_done_callback(lambda _: self._changed.set())
        try:
            while self._messages or not ending.done():
                self._changed.clear()
                while self._messages:
                    yield self._take()
                if not ending.done():
                    await self._changed.wait()
            ending.result()
        finally:
            call.cancel()
            ending.cancel()

    def _take(self) -> bytes:
        message = self._messages.popleft()
        self._unread_bytes -= len(message)
        if not self._messages:
            self.flow.resume(self)
        return message
