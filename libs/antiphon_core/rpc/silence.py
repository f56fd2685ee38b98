"""An inactivity timeout for streams whose server sends heartbeats.

A frozen process keeps its connections, so only the missing messages show that it is frozen. A message costs one
assignment, and one timer for each stream measures the time without messages. While the flow is paused nothing is read,
so the timer stops. If this process was frozen itself, the measurement begins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from antiphon_core.flow import Flow

TICKS = 4
"""The number of timer ticks within the limit."""
FIRST_SIGN_S = 1.2
"""The limit for the first message, a heartbeat or an answer. It is short, because a retry costs little at this
point."""


class SilenceWatch:
    """The inactivity timeout of one stream. For one event loop."""

    def __init__(self, limit_s: float, on_silence: Callable[[], object]) -> None:
        """`on_silence` is called once, between 1 and 1.25 times `limit_s` after the last `note_message`; never if
        `limit_s` is 0. Before the first `note_message` the limit is FIRST_SIGN_S, if that is shorter."""
        self.has_heard = False
        self._limit_s = limit_s
        self._on_silence = on_silence
        self._silent_ticks = 0
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self.has_expired = False
        """Whether `on_silence` was called."""

    def note_message(self) -> None:
        """Restarts the measurement, because a message came."""
        self._silent_ticks = 0
        self.has_heard = True

    @contextmanager
    def running(self, flow: Flow | None) -> Iterator[None]:
        """Measures while the context is open and `flow` is not paused."""
        if self._limit_s <= 0:
            yield
            return
        self._resume()
        try:
            with (flow or Flow()).listening(pause=self._pause, resume=self._resume):
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

    @property
    def _tick_s(self) -> float:
        return (self._limit_s if self.has_heard else min(FIRST_SIGN_S, self._limit_s)) / TICKS

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
