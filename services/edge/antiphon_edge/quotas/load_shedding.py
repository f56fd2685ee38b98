"""Load shedding: an overloaded edge rejects new turns at once, and never queues them.

    429   The tenant uses its share of the turns that this process may run. Other tenants are admitted.
    503   The process is full, its event loop is late, or its memory is nearly used up. Another edge may have room.

A tenant may run up to SHARE times as many turns as are free (dynamic thresholds, as for shared buffers). A single
tenant gets 80 % of all turns, the next one 80 % of the rest. As turns end, the shares become even: 44 % for each of two
tenants, 9.8 % for each of ten, with 2.4 % left for the first turns of another tenant.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from antiphon_core.errors import RequestRateExceeded, Unavailable
from antiphon_core.process_load import ProcessLoad
from antiphon_core.telemetry import metrics
from antiphon_edge.access_settings import AccessSettings

SHARE = 4
MEMORY_SHARE_MAX = 0.9
TURN_RETRY_MS = 1_000  # a guess: the time when a running turn ends is unknown
LAG_RETRY_MS = 2_000
MEMORY_RETRY_MS = 5_000


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The limits of one process; 0 for no limit."""

    turns: int = 0
    lag_s: float = 0.0

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        return cls(settings.turns_max, settings.shed_lag_ms / 1000)


class LoadShedder:
    """Counts and admits the turns of a process. A process has one instance."""

    def __init__(self, limits: LoadLimits, load: ProcessLoad) -> None:
        self._limits = limits
        self._load = load
        self._turns: Counter[str] = Counter()
        self._total = 0

    def begin(self, tenant: str) -> Callable[[], None]:
        """Admits a turn. Call the returned function when the turn has ended.

        Raises:
            RequestRateExceeded: the tenant uses its share.
            Unavailable: the process is overloaded.
        """
        self._require_health()
        free = self._limits.turns - self._total
        if self._limits.turns and free <= 0:
            raise self._shed("turns", "The server runs as many responses as it can.", TURN_RETRY_MS)
        if self._limits.turns and self._turns[tenant] >= SHARE * free:
            metrics.ADMISSION_REJECTED.of("share").add()
            raise RequestRateExceeded(
                f"Rate limit reached on responses in progress at once: the server is busy, and {self._turns[tenant]} "
                "of them are yours. Please try again when one of them has ended.",
                retry_after_ms=TURN_RETRY_MS,
            )
        self._turns[tenant] += 1
        self._total += 1
        return lambda: self._end(tenant)

    @contextmanager
    def turn(self, tenant: str) -> Iterator[None]:
        """Admits a turn, as `begin` does; the turn ends with the block."""
        end = self.begin(tenant)
        try:
            yield
        finally:
            end()

    def _end(self, tenant: str) -> None:
        self._total -= 1
        self._turns[tenant] -= 1
        if not self._turns[tenant]:
            del self._turns[tenant]

    def _require_health(self) -> None:
        if self._limits.lag_s and self._load.lag_s >= self._limits.lag_s:
            raise self._shed("lag", "The server is overloaded.", LAG_RETRY_MS)
        if self._load.uses_more_than(MEMORY_SHARE_MAX):
            raise self._shed("memory", "The server is short of memory.", MEMORY_RETRY_MS)

    def _shed(self, limit: str, why: str, retry_ms: int) -> Unavailable:
        metrics.ADMISSION_REJECTED.of(limit).add()
        wait_ms = round(retry_ms * random.uniform(1, 2))  # noqa: S311 - jitter: clients that retry together are shed again
        return Unavailable(f"{why} Please try again in {wait_ms / 1000:g}s.", retry_after_ms=wait_ms)
