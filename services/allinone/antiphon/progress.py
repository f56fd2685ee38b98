"""Progress of what takes long: a line on a terminal that counts, and is gone at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_S = 2.0  # nobody wants to read of what is done by then
REFRESH_S = 0.2


class ProgressLine:
    """A callback that counts. It writes to a terminal only."""

    def __init__(self, unit: str, *, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._unit = unit
        self._stream = stream or sys.stderr
        self._now_s = now_s
        self._next_s = now_s() + QUIET_S
        self._count = 0
        self._width = 0  # of the line that stands there

    def __call__(self, count: int) -> None:
        self._count += count
        if self._now_s() >= self._next_s and self._stream.isatty():
            self._next_s = self._now_s() + REFRESH_S
            text = f"{self._count:,} {self._unit}"
            self._stream.write(f"\r{text.ljust(self._width)}")
            self._stream.flush()
            self._width = len(text)

    def end(self) -> None:
        """Takes the line away."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0
