"""An allowance: how often a client may do something that costs work and brings nothing, as a token bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` times at once, and `per_s` times a second in the long run."""

    burst: int
    per_s: float


class Allowance:
    """The rest of a rate. It is full at the beginning."""

    def __init__(self, rate: Rate, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        self._rate = rate
        self._now_s = now_s
        self._left = float(rate.burst)
        self._filled_at_s = now_s()

    def take(self) -> bool:
        """Counts once. Returns False if nothing is left."""
        now_s = self._now_s()
        self._left = min(self._rate.burst, self._left + (now_s - self._filled_at_s) * self._rate.per_s)
        self._filled_at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
