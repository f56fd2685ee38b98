"""Waiting for a session: a release in this process wakes the first in line, polling finds out about all others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from antiphon_core.errors import SessionLocked, StoreUnavailable

_Answer = TypeVar("_Answer")
_Key = tuple[str, str]  # tenant, session


class SessionQueue:
    """Who waits for which session in this process. A wake-up is a hint; whether the lease is free, the backend says."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._lines: dict[_Key, list[asyncio.Event]] = {}
        self._is_over = False

    async def until_free(self, key: _Key, attempt: Callable[[], Awaitable[_Answer]], *, wait_ms: int) -> _Answer:
        """What `attempt` returns, as soon as it does not raise SessionLocked; raises that after `wait_ms`.
        StoreUnavailable after `end_waits`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        try:
            return await attempt()
        except SessionLocked:
            if wait_ms <= 0:
                raise
        with self._place_in_line(key) as woken:
            while True:
                if self._is_over:
                    raise stopping()
                remaining_s = max(0.0, deadline - loop.time())
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(self._poll_s, remaining_s)):
                        await woken.wait()
                woken.clear()
                try:
                    return await attempt()
                except SessionLocked:
                    if loop.time() >= deadline:
                        raise

    def wake(self, key: _Key) -> None:
        """Tells the first in line who was not told yet that the session may be free now."""
        for woken in self._lines.get(key, ()):
            if not woken.is_set():
                woken.set()
                return

    def end_waits(self) -> None:
        """Ends all waiting, from now on: the process stops, and another one goes on with it."""
        self._is_over = True
        for line in self._lines.values():
            for woken in line:
                woken.set()

    @contextmanager
    def _place_in_line(self, key: _Key) -> Iterator[asyncio.Event]:
        woken = asyncio.Event()
        line = self._lines.setdefault(key, [])
        line.append(woken)
        try:
            yield woken
        finally:
            line.remove(woken)
            if not line:
                del self._lines[key]


def stopping() -> StoreUnavailable:
    """The error of a wait that ends because this process stops. Callers go on with the next process, as after a lost
    connection."""
    return StoreUnavailable("The store is shutting down.", away=True)
