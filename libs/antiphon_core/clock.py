"""Clocks that are passed as arguments: wall clock time for stored times, monotonic time for intervals."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Unix time in milliseconds: for times that are stored or shown."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment: for intervals, never stored."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to, for tests of leases and expiry."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
