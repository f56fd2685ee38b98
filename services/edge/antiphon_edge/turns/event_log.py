"""A turn's events on their way into the store's log, for readers elsewhere and for whoever goes on with the turn.

Batches that come while one is being written are written together next: no timer, and no write for each token. The turn
goes on while the store cannot be reached. Nothing is left out then: it is asked again for a while, and with every later
batch, and at the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from antiphon_core.errors import AntiphonError, Timeout, Unavailable
from antiphon_core.limits import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventLogs
from antiphon_core.ports.store import Fence
from antiphon_core.ports.translator import Batch

PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Between attempts to reach the store; a restart of it fits in."""
_PASSING = (Unavailable, Timeout)

_Write = Callable[[Fence | None], Awaitable[int]]
Under = Callable[[_Write], Awaitable[int]]


async def _under_none(write: _Write) -> int:
    return await write(None)


class EventLogWriter:
    """The log of one response. Use inside one event loop; `close` at the end, whatever happened."""

    def __init__(
        self,
        logs: EventLogs,
        tenant: str,
        response_id: str,
        *,
        under: Under = _under_none,
        ids_before: int = 0,
        pauses_s: Sequence[float] | None = None,
    ) -> None:
        """`under` gives each write its fence. `ids_before` is how many token ids the log's checkpoints have already."""
        self._logs = logs
        self._tenant = tenant
        self._response_id = response_id
        self._under = under
        self.ids_before = ids_before
        self._pauses_s = PAUSES_S if pauses_s is None else pauses_s
        self._waiting: list[Batch] = []
        self._portions: deque[Sequence[Batch]] = deque()
        """What is to be written next, cut once: an append that may have happened is repeated as it was."""
        self._error: AntiphonError | None = None
        self._writer: asyncio.Task[None] | None = None

    def put(self, batch: Batch) -> None:
        """Has a batch written soon. Raises what went wrong with an earlier one, if it cannot go well another time."""
        self._raise_what_lasts()
        self._waiting.append(batch)
        self._go_on()

    async def flush(self) -> None:
        """Returns when everything is written. Raises what went wrong."""
        self._raise_what_lasts()
        if self._waiting or self._portions:
            self._go_on()
        if self._writer is not None:
            await asyncio.shield(self._writer)
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Gives up what is not written yet."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])

    def _raise_what_lasts(self) -> None:
        if self._error is not None and not isinstance(self._error, _PASSING):
            raise self._error

    def _go_on(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name=f"event log of {self._response_id}")

    async def _write(self) -> None:
        self._error = None
        try:
            while self._waiting or self._portions:
                if not self._portions:
                    batches, self._waiting = self._waiting, []
                    self._portions.extend(_portions(batches))
                await self._append(self._portions[0])
                self._portions.popleft()
        except AntiphonError as error:
            self._error = error

    async def _append(self, batches: Sequence[Batch]) -> None:
        ids = tuple(token_id for batch in batches for token_id in batch.token_ids)
        append = EventAppend(
            response_id=self._response_id,
            expected_position=batches[0].first_sequence,
            count=sum(batch.count for batch in batches),
            frames=b"".join(batch.frames for batch in batches),
            checkpoint=Checkpoint(self.ids_before, ids) if ids else None,
        )
        for pause_s in (*self._pauses_s, None):
            try:
                await self._under(lambda fence: self._logs.append_events(self._tenant, append, fence=fence))
                break
            except _PASSING:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        self.ids_before += len(ids)


def _portions(batches: Sequence[Batch]) -> Sequence[Sequence[Batch]]:
    """The batches in runs that may be appended at once."""
    portions: list[list[Batch]] = []
    count = size_bytes = 0
    for batch in batches:
        count += batch.count
        size_bytes += len(batch.frames)
        if not portions or count > APPEND_EVENTS_MAX or size_bytes > APPEND_BYTES_MAX:
            portions.append([])
            count, size_bytes = batch.count, len(batch.frames)
        portions[-1].append(batch)
    return portions
