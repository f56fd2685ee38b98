"""Notices that the other side of a stream has fallen silent, though it said that it would not.

A frozen process keeps its connections: nothing but its silence tells. A message costs one assignment, and one timer for
each stream counts how long there was none. While the flow is paused nothing is read, and silence means nothing. A
process that was frozen itself heard nobody, and begins to count again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon_core.flow import Flow

TICKS = 4
"""In so many parts the limit is counted."""


class SilenceWatch:
    """Of one stream. Use inside one event loop."""

    def __init__(self, limit_s: float, on_silence: Callable[[], object]) -> None:
        """`on_silence` is called once, after `limit_s` without `heard`; with 0 never."""
        self._tick_s = limit_s / TICKS
        self._on_silence = on_silence
        self._silent_ticks = 0
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self.has_expired = False
        """Whether `on_silence` was called."""

    def heard(self) -> None:
        """Something came."""
        self._silent_ticks = 0

    @contextmanager
    def running(self, flow: Flow | None) -> Iterator[None]:
        """Watches while the block runs, and while `flow` is open."""
        if self._tick_s <= 0:
            yield
            return
        self._resume()
        try:
            with (flow or Flow()).fed_by(pause=self._pause, resume=self._resume):
                yield
        finally:
            self._pause()

    def _pause(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _resume(self) -> None:
        self._pause()
        self._silent_ticks = 0
        self._arm()

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + self._tick_s
        self._handle = loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        has_slept = asyncio.get_running_loop().time() - self._due_s > self._tick_s
        self._silent_ticks = 0 if has_slept else self._silent_ticks + 1
        if self._silent_ticks > TICKS:
            self._handle = None
            self.has_expired = True
            self._on_silence()
        else:
            self._arm()
