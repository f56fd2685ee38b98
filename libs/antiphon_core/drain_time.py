"""The time that running work has left when its process shuts down.

The parts of a process stop one after the other. Their drains count from the same moment, so that a process ends within
the longest of them, not within their sum.
"""

from __future__ import annotations

from antiphon_core.clock import Clock


class DrainTime:
    """One process has one instance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s: float | None = None

    def begin(self) -> None:
        """Begins the shutdown. Further calls have no effect."""
        if self._began_s is None:
            self._began_s = self._clock.monotonic()

    def left_s(self, drain_s: float) -> float:
        """How much is left of a drain of `drain_s`. Begins the shutdown if that has not begun."""
        self.begin()
        assert self._began_s is not None  # noqa: S101 - `begin` has set it
        return max(0.0, self._began_s + drain_s - self._clock.monotonic())
