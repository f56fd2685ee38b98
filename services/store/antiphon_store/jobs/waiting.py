"""Waiting for a job: one enqueued in this process wakes the first in line, polling finds out about all others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

_Answer = TypeVar("_Answer")
_Line = tuple[str, str]  # tenant, queue


class Claimers:
    """Who waits for a job of which queues in this process. A wake-up is a hint; whether there is a job, the backend
    says."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._lines: dict[_Line, list[asyncio.Event]] = {}
        self._is_over = False

    async def until_there(
        self,
        tenant: str,
        queues: Sequence[str],
        attempt: Callable[[], Awaitable[_Answer | None]],
        *,
        wait_ms: int,
    ) -> _Answer | None:
        """What `attempt` returns, as soon as it is something; None after `wait_ms`, or `end_waits`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        with self._place_in_lines([(tenant, queue) for queue in dict.fromkeys(queues)]) as woken:
            while (answer := await attempt()) is None and (remaining_s := deadline - loop.time()) > 0:
                if self._is_over:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(self._poll_s, remaining_s)):
                        await woken.wait()
                woken.clear()
        return answer

    def wake(self, tenant: str, queue: str) -> None:
        """Tells the first in line who was not told yet that there may be a job now."""
        for woken in self._lines.get((tenant, queue), ()):
            if not woken.is_set():
                woken.set()
                return

    def end_waits(self) -> None:
        """Ends all waiting, from now on: the process stops, and another one has the next job for them."""
        self._is_over = True
        for line in self._lines.values():
            for woken in line:
                woken.set()

    @contextmanager
    def _place_in_lines(self, lines: Sequence[_Line]) -> Iterator[asyncio.Event]:
        woken = asyncio.Event()
        for line in lines:
            self._lines.setdefault(line, []).append(woken)
        try:
            yield woken
        finally:
            for line in lines:
                self._lines[line].remove(woken)
                if not self._lines[line]:
                    del self._lines[line]
