"""Whether an edge wants requests, with hysteresis.

A store or translator that restarts does not take the edge out of its Service as well: requests wait for the restart,
and requests that need neither are served.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.clock import Clock


class Readiness:
    """Follows what an edge depends on: at once when all of it is there, and after `hold_s` of absence otherwise."""

    def __init__(self, *, hold_s: float, clock: Clock) -> None:
        self._hold_s = hold_s
        self._clock = clock
        self._seen_at_s: float | None = None  # when all was there; None before the first time

    def holds(self, faults: Sequence[BaseException]) -> bool:
        """Whether the edge is ready, given what it misses now."""
        now_s = self._clock.monotonic()
        if not faults:
            self._seen_at_s = now_s
        return self._seen_at_s is not None and (not faults or now_s - self._seen_at_s < self._hold_s)
