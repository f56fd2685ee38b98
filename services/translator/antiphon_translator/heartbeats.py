"""Keeps a stream from being silent, and notices that this process was.

An edge takes silence for the loss of the translator, and has another one go on. While a prompt is read or a model
thinks there is nothing to send, so messages without events are sent. A process that was frozen for longer than its
edges wait has lost its turns to others: it gives up what is left of them, and does not blame its engine for the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.errors import TranslatorUnavailable
from antiphon_translator.send_queue import SendQueue

BEATS = 4
"""So many fit into the silence that a caller puts up with."""
FIRST_BEAT_S = 0.25
"""When the first is sent, if nothing was sent before: a caller moves on soon from a translator that shows no sign of
life."""


class Heartbeats:
    """Of one stream, whose caller puts up with a silence of `silence_s`; 0: of any."""

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
        """TranslatorUnavailable: this process slept for so long that its turn is somebody else's."""
        if self._slept_s:
            raise TranslatorUnavailable(f"This translator stood still for {self._slept_s:.1f} s.")

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
