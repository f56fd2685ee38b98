"""Messages on their way to a client, between a turn that pushes them and a socket that takes its time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from antiphon_core.flow import Flow
from antiphon_core.limits import STREAM_WAITING_BYTES_MAX


class Outbox:
    """The messages of one turn. Its flow is paused while more than STREAM_WAITING_BYTES_MAX wait."""

    def __init__(self) -> None:
        self.flow = Flow()
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, messages: Sequence[bytes]) -> None:
        self._waiting += messages
        self._bytes += sum(map(len, messages))
        if self._bytes > STREAM_WAITING_BYTES_MAX:
            self.flow.pause(self)
        self._changed.set()

    def close(self) -> None:
        """Nothing more is put."""
        self._is_closed = True
        self._changed.set()

    async def take(self) -> Sequence[bytes]:
        """Everything that waits, as soon as there is something; nothing when the outbox is closed and empty."""
        while not self._waiting and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        taken, self._waiting, self._bytes = self._waiting, [], 0
        self.flow.resume(self)
        return taken
