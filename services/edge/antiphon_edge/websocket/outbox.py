"""The outgoing messages of a connection, between turns that push them and a socket that may be slow.

1. Each lane has its own queue. The socket takes one message of each lane in turn (round robin), so that a lane with
   many messages does not block the others.
2. The connection has one memory limit: while more than STREAM_WAITING_BYTES_MAX are unsent, no response begins, and the
   flow of a lane that puts more is paused. All of them continue when the client has read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from antiphon_core.flow import Flow
from antiphon_core.limits import BATCH_BYTES_MAX, STREAM_WAITING_BYTES_MAX


class LaneQueue:
    """The messages of one turn."""

    def __init__(self, outbox: Outbox) -> None:
        self.flow = Flow()
        self.waiting: deque[bytes] = deque()
        self._outbox = outbox
        self._sent: asyncio.Future[None] | None = None

    def put(self, messages: Sequence[bytes]) -> None:
        self._outbox.put(self, messages)

    async def wait_for_room(self) -> None:
        """Waits until the unsent bytes of the connection are below the limit."""
        self._outbox.pause_if_full(self)
        await self.flow.wait_until_open()

    async def wait_until_sent(self) -> None:
        """Waits until all messages of this queue are sent."""
        if self._outbox.has_unsent(self):
            self._sent = asyncio.get_running_loop().create_future()
            await self._sent

    def note_sent(self) -> None:
        if self._sent is not None and not self._sent.done():
            self._sent.set_result(None)


class Outbox:
    """The messages of one connection."""

    def __init__(self) -> None:
        self._ready: deque[LaneQueue] = deque()  # queues with messages; the next to send from is first
        self._emptied: list[LaneQueue] = []  # queues whose last messages are being sent
        self._paused: set[LaneQueue] = set()
        self._bytes = 0
        self._taken_bytes = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, lane: LaneQueue, messages: Sequence[bytes]) -> None:
        if not messages:
            return
        if not lane.waiting:
            self._ready.append(lane)
        lane.waiting += messages
        self._bytes += sum(map(len, messages))
        self.pause_if_full(lane)
        self._changed.set()

    def pause_if_full(self, lane: LaneQueue) -> None:
        if self._bytes > STREAM_WAITING_BYTES_MAX:
            lane.flow.pause(self)
            self._paused.add(lane)

    def close(self) -> None:
        """Ends the outbox: `take` returns the remaining messages, then nothing."""
        self._is_closed = True
        self._changed.set()

    def has_unsent(self, lane: LaneQueue) -> bool:
        return bool(lane.waiting) or lane in self._emptied

    async def take(self) -> Sequence[bytes]:
        """Waits for messages, and returns the next ones, of all lanes in turn. Returns none when the outbox is closed
        and empty. The call also confirms that the messages of the call before have been sent."""
        self._note_sent()
        while not self._ready and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        return self._next()

    def _next(self) -> list[bytes]:
        taken: list[bytes] = []
        while self._ready and self._taken_bytes < BATCH_BYTES_MAX:
            lane = self._ready.popleft()
            message = lane.waiting.popleft()
            taken.append(message)
            self._taken_bytes += len(message)
            (self._ready if lane.waiting else self._emptied).append(lane)
        return taken

    def _note_sent(self) -> None:
        self._bytes -= self._taken_bytes
        self._taken_bytes = 0
        emptied, self._emptied = self._emptied, []
        for lane in emptied:
            if not lane.waiting:
                lane.note_sent()
        if self._bytes <= STREAM_WAITING_BYTES_MAX:
            paused, self._paused = self._paused, set()
            for lane in paused:
                lane.flow.resume(self)
