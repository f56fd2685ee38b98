"""The progress of a long command: a line on the terminal with a count, which is removed at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_S = 2.0  # shorter commands show no progress
REFRESH_S = 0.2


class ProgressLine:
    """A callback that adds to a count and shows it. It writes only if the stream is a terminal."""

    def __init__(self, unit: str, *, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._unit = unit
        self._stream = stream or sys.stderr
        self._now_s = now_s
        self._next_s = now_s() + QUIET_S
        self._count = 0
        self._width = 0  # the width of the line on the terminal

    def __call__(self, count: int) -> None:
        self._count += count
        if self._now_s() >= self._next_s and self._stream.isatty():
            self._next_s = self._now_s() + REFRESH_S
            text = f"{self._count:,} {self._unit}"
            self._stream.write(f"\r{text.ljust(self._width)}")
            self._stream.flush()
            self._width = len(text)

    def end(self) -> None:
        """Removes the line."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0
