"""Budgets for the bytes of incomplete requests: a limit in total, and one for each peer or tenant."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from types import TracebackType
from typing import Self

from antiphon_core.errors import RequestRateExceeded, Unavailable
from antiphon_core.telemetry import metrics

RETRY_MS = 1_000


class Excess(Enum):
    """The limit that more bytes would exceed."""

    TOTAL = "total"
    SHARE = "share"


class ByteBudget:
    """Counts the bytes that peers or tenants (holders) have in use."""

    def __init__(self, kind: str, *, total: int, share: int) -> None:
        """`kind` names the budget in metrics. `share` is the limit of one holder."""
        self._kind = kind
        self._total = total
        self._share = share
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()

    @property
    def held(self) -> int:
        return self._bytes

    def take(self, holder: str, size: int) -> Excess | None:
        """Counts bytes until `give_back`. Returns the limit that they would exceed, and then counts nothing."""
        excess = None
        if self._bytes_of[holder] + size > self._share:
            excess = Excess.SHARE
        elif self._bytes + size > self._total:
            excess = Excess.TOTAL
        if excess is not None:
            metrics.BYTES_REJECTED.of(self._kind, excess.value).add()
            return excess
        self._bytes += size
        self._bytes_of[holder] += size
        return None

    def give_back(self, holder: str, size: int) -> None:
        self._bytes -= size
        self._bytes_of[holder] -= size
        if not self._bytes_of[holder]:
            del self._bytes_of[holder]


class Tally:
    """The bytes of one request or message in a budget. A context manager: its end gives them back."""

    def __init__(self, budget: ByteBudget, holder: str) -> None:
        self._budget = budget
        self._holder = holder
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def try_add(self, size: int) -> Excess | None:
        """Counts more bytes. Returns the limit that they would exceed, and then counts nothing."""
        excess = self._budget.take(self._holder, size)
        if excess is None:
            self._size += size
        return excess

    def add(self, size: int) -> None:
        """Counts more bytes. RequestRateExceeded: over the holder's limit. Unavailable: over the total limit."""
        excess = self.try_add(size)
        if excess is Excess.SHARE:
            message = "Too many bytes of this tenant's requests are being received at once. Try again in a moment."
            raise RequestRateExceeded(message, retry_after_ms=RETRY_MS)
        if excess is Excess.TOTAL:
            raise Unavailable("The server is receiving as many bytes of requests as it can hold. Try again.")

    def shrink_to(self, size: int) -> None:
        """Gives back what was counted beyond `size`."""
        if size < self._size:
            self._budget.give_back(self._holder, self._size - size)
            self._size = size

    def clear(self) -> None:
        """Gives back what was counted."""
        if self._size:
            self._budget.give_back(self._holder, self._size)
            self._size = 0
