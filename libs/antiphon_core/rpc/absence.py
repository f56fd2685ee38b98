"""How long a service that cannot be reached is waited for.

A server that restarts, gracefully or not, is back within seconds, and its callers wait for it. A server that has been
away for longer is down: further callers hear that at once, and no requests pile up. A call that ends by its deadline
begins an absence, but is not repeated: the server has had all the time that there was.
"""

from __future__ import annotations

import random

from antiphon_core.errors import AntiphonError, Timeout, Unavailable

PAUSE_S = 0.1
"""Between attempts. Without a connection an attempt does not leave the process."""


class Absence:
    """The absence of one service, as the calls of one client find it. Times are of one monotonic clock."""

    def __init__(self, wait_s: float) -> None:
        """Calls wait for the first `wait_s` of an absence."""
        self._wait_s = wait_s
        self._since_s: float | None = None

    def is_over(self) -> None:
        """A call was answered."""
        self._since_s = None

    def pause_after(self, error: AntiphonError, now_s: float) -> float | None:
        """The pause before a call that failed may be tried again; None: the error is the answer."""
        is_away = isinstance(error, Unavailable) and error.is_away
        if not is_away and not isinstance(error, Timeout):
            self.is_over()
            return None
        if self._since_s is None:
            self._since_s = now_s
        if not is_away or now_s - self._since_s >= self._wait_s:
            return None
        return PAUSE_S * random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
