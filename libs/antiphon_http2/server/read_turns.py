"""Shares the event loop among connections that have much to handle.

    bytes came ─────────────▶ a step at once ──▶ nothing is left
         │                         │
         │ before the end          │ bytes are left
         │ of its rest             ▼
         └──────────────────▶ the line: one step of one connection in each iteration of the event loop,
                              and a rest behind it while connections outside the line are active

A step takes half a millisecond, unless a single header block takes longer. A connection in the line is not read.

The rest is as long as the work before it, so that the line takes half of the loop at most from the others. Without it
one connection that sent calls without a pause had a step in each iteration, and the call of another one, which takes
three or four, took 3 to 5 times as long; with headers of 300 fields 10 times. Nothing rests while only the line is
active. Work is counted in items, because its time would be stretched by other processes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

ITEM_S = 8e-6
"""The time of an item of work, with what the handlers of calls do in later iterations."""


class Reader(Protocol):
    """A connection, as its turns need it."""

    @property
    def has_unread(self) -> bool:
        """Whether a step has left bytes."""

    def step(self, data: bytes) -> int:
        """Handles a part of the bytes so far, with `data` behind them. Returns the items of work."""


class ReadTurns:
    """The line of one server. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self._line: deque[ReadTurn] = deque()
        self._outsider: ReadTurn | None = None  # that was active outside the line since the last step of the line
        self._rests_until_s = 0.0
        self._is_scheduled = False

    def note(self, turn: ReadTurn) -> None:
        """Notes that a connection outside the line is active."""
        self._outsider = turn

    def add(self, turn: ReadTurn) -> None:
        """Gives a connection the last place of the line. It needs the running loop."""
        if self._outsider is turn:
            self._outsider = None
        self._line.append(turn)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        try:
            if self._outsider is None or self.now_s() >= self._rests_until_s:
                self._outsider = None
                turn = self._line.popleft()
                self._rests_until_s = turn.take()
        finally:
            if self._line:
                self._schedule()


class ReadTurn:
    """The place of one connection, at once or in the line."""

    __slots__ = ("_data", "_reader", "_rests_until_s", "_turns", "is_waiting")

    def __init__(self, reader: Reader, turns: ReadTurns) -> None:
        self._reader = reader
        self._turns = turns
        self._data = b""
        self._rests_until_s = 0.0
        self.is_waiting = False  # in the line; the connection must not be read

    def read(self, data: bytes) -> None:
        """Handles bytes that were read: at once, or in the line if the connection rests."""
        self._data = data
        if self._turns.now_s() < self._rests_until_s:
            self._wait()
        else:
            self.note()
            self.take()

    def begin_in_line(self) -> None:
        """Makes the first bytes wait in the line."""
        self._rests_until_s = math.inf

    def note(self) -> None:
        """Notes that the connection is active, such as by an answer that it sends."""
        if not self.is_waiting:
            self._turns.note(self)

    def take(self) -> float:
        """Handles one step, and returns the end of the rest behind it."""
        self.is_waiting = False
        data, self._data = self._data, b""
        items = self._reader.step(data)
        self._rests_until_s = self._turns.now_s() + items * ITEM_S
        if self._reader.has_unread:
            self._wait()
        return self._rests_until_s

    def _wait(self) -> None:
        self.is_waiting = True
        self._turns.add(self)
