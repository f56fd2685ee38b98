"""The turns in which connections handle bytes that they have read: one step of one connection in each iteration of the
event loop.

A connection handles its first step at once. The steps behind it wait here, and its socket is not read meanwhile: four
connections that sent calls without a token, without a pause, each took the loop for 0.3 s with every read, and all
other callers passed their deadlines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class ReadTurns:
    """The connections of one server that have more to handle, in round-robin order."""

    def __init__(self) -> None:
        self._steps: deque[Callable[[], None]] = deque()

    def add(self, step: Callable[[], None]) -> None:
        """Calls `step` when it is its turn, in a later iteration of the running loop."""
        self._steps.append(step)
        if len(self._steps) == 1:
            self._schedule()

    def _schedule(self) -> None:
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        step = self._steps[0]
        try:
            step()
        finally:
            self._steps.popleft()
            if self._steps:
                self._schedule()
