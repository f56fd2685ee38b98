"""Readiness of an edge, with hysteresis.

When its store or translator restarts, the edge stays in its Kubernetes Service for a while: requests that need them
wait for the restart, and other requests are served.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.clock import Clock


class Readiness:
    """An edge is ready while all its dependencies are, and for `hold_s` after they last were."""

    def __init__(self, *, hold_s: float, clock: Clock) -> None:
        self._hold_s = hold_s
        self._clock = clock
        self._seen_at_s: float | None = None  # when all dependencies were last ready; None before the first time

    def update(self, faults: Sequence[BaseException]) -> bool:
        """Takes the present faults of the dependencies. Returns whether the edge is ready."""
        now_s = self._clock.monotonic()
        if not faults:
            self._seen_at_s = now_s
        return self._seen_at_s is not None and (not faults or now_s - self._seen_at_s < self._hold_s)
