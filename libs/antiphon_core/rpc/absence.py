"""Retries while a service cannot be reached.

A server that restarts, gracefully or not, is back within seconds, so calls are retried for that time. A server that has
been unreachable for longer is down: further calls fail at once, so that no requests pile up. A call that exceeds its
deadline also begins an absence, but is not retried, because its time is used up.
"""

from __future__ import annotations

import random

from antiphon_core.errors import AntiphonError, Timeout, Unavailable

PAUSE_S = 0.1
"""The pause between attempts. Without a connection an attempt does not leave the process."""


class Absence:
    """The time since which one client cannot reach a service. All times are of one monotonic clock."""

    def __init__(self, wait_s: float) -> None:
        """Calls are retried for the first `wait_s` of an absence."""
        self._wait_s = wait_s
        self._since_s: float | None = None

    def is_over(self) -> None:
        """Ends the absence, because a call was answered."""
        self._since_s = None

    def pause_after(self, error: AntiphonError, now_s: float) -> float | None:
        """Returns the pause before a retry of a call that failed; None if it must not be retried."""
        is_away = isinstance(error, Unavailable) and error.is_away
        if not is_away and not isinstance(error, Timeout):
            self.is_over()
            return None
        if self._since_s is None:
            self._since_s = now_s
        if not is_away or now_s - self._since_s >= self._wait_s:
            return None
        return PAUSE_S * random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
