"""A token bucket: a number of items at once, and a rate at which they come back."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Counts items. `now_s` is a monotonic clock, which is read only when the bucket is empty."""

    def __init__(self, items_max: int, items_per_s: int, now_s: Callable[[], float]) -> None:
        self.items_max = items_max
        self.items_per_s = items_per_s
        self._now_s = now_s
        self._items = items_max
        self._filled_s = now_s()

    def take(self, items: int) -> None:
        """Takes items, also more than there are: then the bucket is empty until they have come back."""
        self._items -= items

    def give(self, items: int) -> None:
        """Puts items into the bucket, up to its maximum."""
        self._items = min(self._items + items, self.items_max)

    @property
    def is_empty(self) -> bool:
        """Whether more items were taken than there are."""
        if self._items < 0:
            now_s = self._now_s()
            self.give(int((now_s - self._filled_s) * self.items_per_s))
            self._filled_s = now_s
        return self._items < 0
