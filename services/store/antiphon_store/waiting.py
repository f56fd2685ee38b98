"""Waiting in this process: for a session that is locked, for a job, for more of an event log.

A change that is made in this process wakes its waiters; changes of other processes are found by polling. A wake-up is a
hint: the waiter asks the backend again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from antiphon_core.errors import SessionLocked, StoreUnavailable

LINE_POLL_S = 0.001
_Answer = TypeVar("_Answer")
Line = tuple[str, str]  # a tenant, and the id or queue that is waited for


class Waiter:
    """One waiter, in one or more lines. `wait` returns at once if the waiter was woken since its last call."""

    def __init__(self, lines: WaitingLines) -> None:
        self._lines = lines
        self.woken = asyncio.Event()

    async def wait(self, until_s: float = float("inf")) -> None:
        """Returns when the waiter should look again, at `until_s` by the loop's clock at the latest. StoreUnavailable:
        this process is stopping. Callers retry with another replica, as after a lost connection."""
        if self._lines.are_over:
            raise StoreUnavailable("The store is shutting down.", away=True)
        remaining_s = max(0.0, until_s - asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._lines.pace_s, remaining_s)):
                await self.woken.wait()
        self.woken.clear()


class WaitingLines:
    """The waiters for one kind of thing: sessions, jobs or event logs."""

    def __init__(self, *, poll_s: float) -> None:
        self.poll_s = poll_s
        self.are_over = False  # this process is stopping
        self._lines: dict[Line, list[Waiter]] = {}

    @property
    def pace_s(self) -> float:
        """The time between two polls of a line: `poll_s`, or a millisecond for each line if that is more. With 2,000
        lines at the pace of a few, polling took the process all of its time."""
        return max(self.poll_s, LINE_POLL_S * len(self._lines))

    async def until_free(self, line: Line, attempt: Callable[[], Awaitable[_Answer]], *, wait_ms: int) -> _Answer:
        """Repeats `attempt` until it does not raise SessionLocked, and returns its answer. SessionLocked: after
        `wait_ms`. StoreUnavailable: after `end_waits`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms / 1000
        try:
            return await attempt()
        except SessionLocked:
            if wait_ms <= 0:
                raise
        with self.waiter([line]) as waiter:
            while True:
                await waiter.wait(deadline_s)
                try:
                    return await attempt()
                except SessionLocked:
                    if loop.time() >= deadline_s:
                        raise

    async def until_there(
        self, lines: Sequence[Line], attempt: Callable[[], Awaitable[_Answer | None]], *, wait_ms: int
    ) -> _Answer | None:
        """Repeats `attempt` until it returns an answer; None after `wait_ms`, or after `end_waits`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms / 1000
        with self.waiter(lines) as waiter:
            while (answer := await attempt()) is None and loop.time() < deadline_s and not self.are_over:
                await waiter.wait(deadline_s)
        return answer

    def wake_first(self, line: Line) -> None:
        """Wakes the first waiter of a line that was not woken yet."""
        for waiter in self._lines.get(line, ()):
            if not waiter.woken.is_set():
                waiter.woken.set()
                return

    def wake_all(self, line: Line) -> None:
        for waiter in self._lines.get(line, ()):
            waiter.woken.set()

    def end_waits(self) -> None:
        """Ends all waits, now and later, each after a last attempt. Called when the process stops."""
        self.are_over = True
        for line in self._lines:
            self.wake_all(line)

    @contextmanager
    def waiter(self, lines: Sequence[Line]) -> Iterator[Waiter]:
        """Adds a waiter at the end of lines, for as long as the block runs."""
        waiter, chosen = Waiter(self), list(dict.fromkeys(lines))
        for line in chosen:
            self._lines.setdefault(line, []).append(waiter)
        try:
            yield waiter
        finally:
            for line in chosen:
                self._lines[line].remove(waiter)
                if not self._lines[line]:
                    del self._lines[line]
