"""A token bucket: so many units a minute on average, and a minute's worth of them at once.

Pure: time is an argument, in seconds of a monotonic clock.
"""

from __future__ import annotations

MINUTE_S = 60.0


class TokenBucket:
    """Fills at `per_minute`, up to a minute's worth. What is spent beyond its level is a debt, to be filled first."""

    __slots__ = ("_at_s", "_level", "_per_s", "capacity")

    def __init__(self, per_minute: float, now_s: float) -> None:
        self.capacity = max(per_minute, 1.0)  # one unit fits, however slowly the bucket fills
        self._per_s = per_minute / MINUTE_S
        self._level = self.capacity
        self._at_s = now_s

    def level(self, now_s: float) -> float:
        """How much can be spent now; negative with debts."""
        self._level = min(self.capacity, self._level + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._level

    def spend(self, amount: float, now_s: float) -> None:
        self._level = self.level(now_s) - amount

    def wait_s(self, level: float, now_s: float) -> float:
        """How long until the bucket holds so much."""
        return max(0.0, level - self.level(now_s)) / self._per_s

    def full(self, now_s: float) -> bool:
        return self.level(now_s) >= self.capacity
