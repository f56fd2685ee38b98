"""Sends heartbeats on a stream that has no events to send, and ends a stream after this process was suspended.

An edge that receives nothing for its silence timeout takes the translator for lost, and lets another one continue the
turn. While there are no events, as when the engine reads a prompt, heartbeats are sent: messages without events. A
process that was suspended for longer than the timeout has lost its turns to other translators: it ends their streams
with TranslatorUnavailable instead of an error of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.errors import TranslatorUnavailable
from antiphon_translator.send_queue import SendQueue

BEATS = 4
"""Heartbeats within the silence timeout."""
FIRST_BEAT_S = 0.25
"""Seconds to the first heartbeat, at most: before the first message a caller's timeout is shorter (rpc/silence.py)."""


class Heartbeats:
    """The heartbeats of one stream, whose caller has a silence timeout of `silence_s`; 0: no timeout."""

    def __init__(self, queue: SendQueue, silence_s: float) -> None:
        self._queue = queue
        self._silence_s = silence_s
        self._slept_s = 0.0
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        if self._silence_s > 0:
            self._arm(min(FIRST_BEAT_S, self._silence_s / BEATS))
        try:
            yield
        finally:
            if self._handle is not None:
                self._handle.cancel()

    def require_awake(self) -> None:
        """TranslatorUnavailable: this process was suspended for longer than the silence timeout."""
        if self._slept_s:
            raise TranslatorUnavailable(f"This translator was suspended for {self._slept_s:.1f} s.")

    def _arm(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + pause_s
        self._handle = loop.call_at(self._due_s, self._beat)

    def _beat(self) -> None:
        late_s = asyncio.get_running_loop().time() - self._due_s
        if late_s > self._silence_s:
            self._slept_s = late_s
            self._queue.close()
        else:
            self._queue.beat()
            self._arm(self._silence_s / BEATS)
