"""Budgets for bytes of requests: a limit in total, and a share of it for each peer or tenant.

A share is fixed, or SHARE times what is free (dynamic thresholds, as for shared buffers): a holder alone gets four
fifths of the total, and each further one still finds room.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from types import TracebackType
from typing import Self

from antiphon_core.errors import RequestRateExceeded, Unavailable
from antiphon_core.telemetry import metrics

RETRY_MS = 1_000
SHARE = 4
"""How many times as much as what is free one holder may have, of a total without fixed shares."""


class Excess(Enum):
    """The limit that more bytes would exceed."""

    TOTAL = "total"
    SHARE = "share"


class ByteBudget:
    """Counts the bytes that peers or tenants (holders) have in use."""

    def __init__(self, kind: str, *, total: int, share: int | None = None, state: str = "being received") -> None:
        """`kind` names the budget in metrics, and with `_bytes_max` in settings. `share` is the limit of one holder;
        None for a dynamic one. `state` is that of the requests, in errors."""
        self.kind = kind
        self.state = state
        self._total = total
        self._share = share
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def take(self, holder: str, size: int) -> Excess | None:
        """Counts bytes until `give_back`. Returns the limit that they would exceed, and then counts nothing."""
        if (excess := self.excess(holder, size)) is not None:
            metrics.BYTES_REJECTED.of(self.kind, excess.value).add()
            return excess
        self._bytes += size
        self._bytes_of[holder] += size
        return None

    def excess(self, holder: str, size: int) -> Excess | None:
        """The limit that more bytes would exceed; None: there is room for them."""
        had, free = self._bytes_of.get(holder, 0), self._total - self._bytes - size
        share = self._share
        if share is None:
            share = SHARE * free if had else self._total
        if had + size > share:
            return Excess.SHARE
        return Excess.TOTAL if free < 0 else None

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
        excess = self._budget.take(self._holder, size)
        if excess is None:
            self._size += size
            return
        kind, state = self._budget.kind, self._budget.state
        if excess is Excess.SHARE:
            raise RequestRateExceeded(
                f"Too many bytes of this tenant's requests are {state} at once. Try again in a moment. (An operator "
                f"sets the limit with {kind}_bytes_max.)",
                retry_after_ms=RETRY_MS,
            )
        raise Unavailable(
            f"As many bytes of requests are {state} as this server has room for. Try again. (An operator sets the "
            f"limit with {kind}_bytes_max.)"
        )

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
