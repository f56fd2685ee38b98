"""The rate limit of a log line that one cause would write thousands of times."""

from __future__ import annotations

LOG_INTERVAL_S = 10.0


class LogLimit:
    """Counts events of one kind, and says when they are due for a log line: the first at once, later ones together once
    in `interval_s`. Times are of one monotonic clock."""

    def __init__(self, interval_s: float = LOG_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._due_s: float | None = None
        self._unlogged = 0

    def count(self, now_s: float) -> int:
        """Counts one event. Returns the number of events since the last line if a line is due now, and 0 otherwise."""
        self._unlogged += 1
        if self._due_s is not None and now_s < self._due_s:
            return 0
        self._due_s = now_s + self._interval_s
        counted, self._unlogged = self._unlogged, 0
        return counted
