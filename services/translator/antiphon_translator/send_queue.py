"""The batches of one stream that wait until the batch before them is written to the network.

Batches are pushed at the end of an iteration of the event loop, or taken by the task of the stream where that is not
possible. A slow network gets few large messages instead of many small ones: waiting batches are joined where that does
not change their meaning. Too many waiting bytes pause the flow, so that nothing more is read from the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from antiphon_core.flow import Flow
from antiphon_core.limits import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, STREAM_WAITING_BYTES_MAX
from antiphon_core.ports.translator import Batch
from antiphon_core.rpc.pusher import Pusher
from antiphon_translator import wire

HEARTBEAT = Batch(first_sequence=0, count=0, frames=b"")
"""A batch without events, which shows that the translator is alive."""


class SendQueue:
    """The queue of one stream. Any code may put batches in; one task takes them. Use inside one event loop."""

    def __init__(self, flow: Flow, pusher: Pusher | None = None) -> None:
        self._flow = flow
        self._pusher = pusher
        self._waiting: deque[Batch] = deque()
        self._waiting_bytes = 0
        self._is_closed = False
        self._must_beat = False
        self._changed = asyncio.Event()

    def put(self, batch: Batch) -> None:
        is_first = not self._waiting
        self._waiting.append(batch)
        self._waiting_bytes += len(batch.frames)
        if self._waiting_bytes > STREAM_WAITING_BYTES_MAX:
            self._flow.pause(self)
        if self._pusher is None or self._is_closed:
            self._changed.set()
        elif is_first:
            self._pusher.before_write(self._push_waiting)

    def beat(self) -> None:
        """Makes `take` return a heartbeat if no batch waits."""
        self._must_beat = True
        self._changed.set()

    def close(self) -> None:
        """Ends the queue: no more batches will be put in."""
        self._is_closed = True
        self._changed.set()

    async def take(self) -> Batch | None:
        """Waits for a batch, and returns it joined with those behind it; None at the end of a closed queue."""
        while not self._waiting:
            if self._is_closed:
                return None
            if self._must_beat:
                self._must_beat = False
                return HEARTBEAT
            self._changed.clear()
            await self._changed.wait()
        return self._next()

    def _push_waiting(self) -> None:
        """Pushes the batches that wait, up to one that has to be taken."""
        while self._waiting:
            batch = self._next()
            if not self._push(batch):
                self._waiting.appendleft(batch)
                self._waiting_bytes += len(batch.frames)
                self._changed.set()
                return

    def _push(self, batch: Batch) -> bool:
        """Returns False for a batch that has to be taken."""
        assert self._pusher is not None  # noqa: S101 - `put` has it call this
        try:
            message = wire.batch_message(batch)
        except Exception:  # noqa: BLE001 - raised again in the task of the stream, which it ends
            return False
        return self._pusher.push(message)

    def _next(self) -> Batch:
        """Removes the first batch, joined with those behind it."""
        self._must_beat = False
        batch = self._join_first()
        self._waiting_bytes -= len(batch.frames)
        if self._waiting_bytes <= STREAM_WAITING_BYTES_MAX // 2:
            self._flow.resume(self)
        return batch

    def _join_first(self) -> Batch:
        taken = [self._waiting.popleft()]
        count, size = taken[0].count, len(taken[0].frames)
        while self._waiting and _can_be_joined(taken[-1], self._waiting[0]):
            count += self._waiting[0].count
            size += len(self._waiting[0].frames)
            if count > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX:
                break
            taken.append(self._waiting.popleft())
        return taken[0] if len(taken) == 1 else _join(taken)


def _can_be_joined(batch: Batch, following: Batch) -> bool:
    """Whether two batches can be sent as one. The last batch is sent alone. The token ids of a batch cover all its
    events, so a batch with ids cannot be joined with events whose ids are still to come."""
    return not following.is_last and (bool(following.token_ids) or not batch.token_ids)


def _join(batches: Sequence[Batch]) -> Batch:
    return Batch(
        first_sequence=batches[0].first_sequence,
        count=sum(batch.count for batch in batches),
        frames=b"".join([batch.frames for batch in batches]),
        token_ids=[token_id for batch in batches for token_id in batch.token_ids],
    )
