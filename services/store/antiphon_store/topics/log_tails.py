"""The ends of the event logs that calls of this process follow: one reader for each log.

A call reads the log by itself until it has caught up, and then waits for news at the log's tail. The tail reads once
and passes the page on to all of its followers, some in each iteration of the event loop, so that other calls are served
in between. A follower that was too slow for the tail reads by itself again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.unexpected import as_antiphon_error
from antiphon_store.decisions.logs import LogPage
from antiphon_store.waiting import Line, WaitingLines

WOKEN_TOGETHER = 32  # followers in one iteration of the loop: each encodes and sends a message then
KEPT_BYTES_MAX = 64 * 1024
"""The most bytes of a page that are kept for followers that were busy when it came."""

FAILED = "The event log could not be followed. The log of the store says why."

_Read = Callable[[int], Awaitable[LogPage]]


class LogTail:
    """The end of one log. `read` reads the page that begins with a position."""

    def __init__(self, line: Line, read: _Read, waiting: WaitingLines, *, woken_together: int) -> None:
        self.followers = 0
        self._woken_together = woken_together
        self._line = line
        self._read = read
        self._waiting = waiting
        self._page: LogPage | None = None
        self._next = 0  # the position behind the last page
        self._ears: list[asyncio.Future[LogPage | AntiphonError]] = []
        self._reading: asyncio.Task[None] | None = None

    async def beyond(self, position: int, end: int) -> LogPage:
        """Waits until the log has an event at `position`, or has ended before it, and returns the page that begins with
        this event. `end`: the end of the log that the caller has seen. Raises what reading the log raises."""
        page = self._page
        while page is None or not _tells(page, position):
            if position < self._next:
                page = await self._read(position)
                self._next = min(self._next, page.next_position)  # less: the log expired, and began anew
            else:
                page = await self._news(min(position, end))
        return replace(page, batches=tuple(each for each in page.batches if _end_of(each) > position))

    @property
    def waiting(self) -> int:
        """The number of followers that wait for news."""
        return len(self._ears)

    def close(self) -> None:
        """Stops reading. Called when the last follower has left."""
        if self._reading is not None:
            self._reading.cancel()

    async def _news(self, position: int) -> LogPage:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._listen(position), name=f"tail of {self._line[1]}")
        ear = asyncio.get_running_loop().create_future()
        self._ears.append(ear)
        found: LogPage | AntiphonError = await ear
        if isinstance(found, AntiphonError):
            raise copy(found)  # a copy each: raising one error twice mixes its tracebacks
        return found

    async def _listen(self, position: int) -> None:
        """Reads the log from `position` on, and passes each page on. Followers that come while the last one is passed
        on, or the error that ended the reading, get it too: nobody would read for them."""
        try:
            last: LogPage | AntiphonError = await self._last_page(position)
        except Exception as error:  # noqa: BLE001 - a follower must not wait for a reader that is gone
            last = as_antiphon_error(error, "following an event log", FAILED)
        while self._ears:
            await self._pass_on(last)

    async def _last_page(self, position: int) -> LogPage:
        with self._waiting.waiter([self._line]) as waiter:
            while True:
                page = await self._read(position)
                if page.batches:
                    position = _end_of(page.batches[-1])
                has_ended = page.is_closed and position >= page.next_position
                if page.batches or has_ended:
                    is_small = sum(len(batch.frames) for batch in page.batches) <= KEPT_BYTES_MAX
                    self._page, self._next = page if is_small else None, position
                if has_ended:
                    return page
                if page.batches:
                    await self._pass_on(page)
                if position >= page.next_position:
                    await waiter.wait()

    async def _pass_on(self, found: LogPage | AntiphonError) -> None:
        ears, self._ears = self._ears, []
        for first in range(0, len(ears), self._woken_together):
            for ear in ears[first : first + self._woken_together]:
                if not ear.done():  # its follower has left
                    ear.set_result(found)
            await asyncio.sleep(0)


def _end_of(batch: EventBatch) -> int:
    return batch.first_sequence + batch.count


def _tells(page: LogPage, position: int) -> bool:
    """Whether a page has the event at a position, or says that the log has ended before it."""
    if page.batches and page.batches[0].first_sequence <= position < _end_of(page.batches[-1]):
        return True
    return page.is_closed and position >= page.next_position


class LogTails:
    """The tails of all followed logs of a process. `read` reads a page of a log (tenant and id) from a position."""

    def __init__(
        self,
        read: Callable[[str, str, int], Awaitable[LogPage]],
        waiting: WaitingLines,
        *,
        woken_together: int = WOKEN_TOGETHER,
    ) -> None:
        self._read = read
        self._waiting = waiting
        self._woken_together = woken_together
        self._tails: dict[Line, LogTail] = {}

    @contextmanager
    def follow(self, tenant: str, log_id: str) -> Iterator[LogTail]:
        """The tail of a log, which lives as long as one of its followers."""
        line = tenant, log_id
        tail = self._tails.get(line)
        if tail is None:
            read = partial(self._read, tenant, log_id)
            tail = LogTail(line, read, self._waiting, woken_together=self._woken_together)
            self._tails[line] = tail
        tail.followers += 1
        try:
            yield tail
        finally:
            tail.followers -= 1
            if not tail.followers:
                del self._tails[line]
                tail.close()
