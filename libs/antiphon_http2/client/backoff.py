"""Exponential backoff between attempts to connect."""

from __future__ import annotations

from collections.abc import Callable

_FACTOR = 1.6  # this and the jitter are gRPC's
_JITTER = 0.2


class Backoff:
    """The delay before the next attempt, which grows with each consecutive failure. Jitter keeps clients from
    connecting all at once. `uniform` is `random.uniform`, or a test's stand-in."""

    def __init__(self, first_s: float, max_s: float, uniform: Callable[[float, float], float]) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._uniform = uniform
        self._delay_s = first_s
        self._open_s: float | None = None

    def can_try(self, now_s: float) -> bool:
        return self._open_s is None or now_s >= self._open_s

    def note_failure(self, now_s: float) -> None:
        self._open_s = now_s + self._delay_s * self._uniform(1 - _JITTER, 1 + _JITTER)
        self._delay_s = min(self._delay_s * _FACTOR, self._max_s)

    def note_success(self) -> None:
        self._delay_s = self._first_s
        self._open_s = None
