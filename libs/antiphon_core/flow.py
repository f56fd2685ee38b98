"""Backpressure for streams that are pushed.

The source of a stream calls its receiver with the data of each read, and that call never waits. A receiver that cannot
take more pauses the flow: the source stops reading, and the peer's own flow control stops the sender. Data that was
read before the pause is still delivered, so a receiver holds at most one read more than its limit.

A flow has one source at a time and any number of receivers. It is paused while at least one receiver pauses it. Timers
that watch the source listen to the flow as the source does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Flow:
    """The flow of one stream, for use in one event loop. Only `wait_until_open` waits."""

    def __init__(self) -> None:
        self.is_paused = False
        self._pausing: set[int] = set()
        self._listeners: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def pause(self, receiver: object) -> None:
        """Stops the source until `receiver` resumes. A second call of the same receiver changes nothing."""
        was_paused, self.is_paused = self.is_paused, True
        self._pausing.add(id(receiver))
        if not was_paused:
            for pause, _ in tuple(self._listeners):
                pause()

    def resume(self, receiver: object) -> None:
        """Lets the source go on, unless another receiver pauses it. Does nothing if `receiver` did not pause."""
        if not self.is_paused:
            return
        self._pausing.discard(id(receiver))
        if not self._pausing:
            self.is_paused = False
            for _, resume in tuple(self._listeners):
                resume()

    @contextmanager
    def listening(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> Iterator[None]:
        """Calls `pause` and `resume` when the flow changes, and `pause` at once if it is paused already. For a source
        that a socket drives, and for timers that watch it."""
        listener = (pause, resume)
        self._listeners.append(listener)
        if self.is_paused:
            pause()
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def wait_until_open(self) -> None:
        """Returns when the flow is not paused. For a source that reads in a loop."""
        while self.is_paused:
            opened = asyncio.Event()  # made when needed: it has 0.7 KB, and few streams are ever paused
            with self.listening(pause=opened.clear, resume=opened.set):
                await opened.wait()
