"""Load shedding: an overloaded edge rejects new turns at once, and never queues them.

    429   The tenant uses its share of the turns that this process may run. Other tenants are admitted.
    503   The process is full, its event loop is late, or its memory is nearly used up. Another edge may have room.

Turns are counted, and the bytes that they hold until they end (byte_budget.py). A tenant may have up to SHARE times as
much of each as is free. A single tenant gets 80 % of all turns, the next one 80 % of the rest. As turns end, the shares
become even: 44 % for each of two tenants, 9.8 % for each of ten, with 2.4 % left for the first turns of another tenant.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Self

from antiphon_core.byte_budget import SHARE, ByteBudget, Tally
from antiphon_core.errors import RequestRateExceeded, Unavailable
from antiphon_core.process_load import ProcessLoad, bytes_for_turns
from antiphon_core.telemetry import metrics
from antiphon_edge.access_settings import AccessSettings

MEMORY_SHARE_MAX = 0.9
HISTORIES = 2
"""How many bytes of histories connections keep for each byte of turns: a turn takes three times its bytes, and a
history only once."""
TURN_RETRY_MS = 1_000  # a guess: the time when a running turn ends is unknown
LAG_RETRY_MS = 2_000
MEMORY_RETRY_MS = 5_000


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The limits of one process; 0 for no limit."""

    turns: int = 0
    lag_s: float = 0.0
    turns_bytes: int = 0

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        turns_bytes = settings.turns_bytes_max or bytes_for_turns(settings.memory_limit_bytes)
        return cls(settings.turns_max, settings.shed_lag_ms / 1000, turns_bytes)


class RunningTurn:
    """The place of a turn in its process."""

    def __init__(self, shedder: LoadShedder, tenant: str) -> None:
        self._shedder = shedder
        self._tenant = tenant
        self.bytes = Tally(shedder.held_bytes, tenant)
        """The bytes that the turn holds until it ends."""

    def end(self) -> None:
        """Takes note that the turn has ended. Call it once."""
        self.bytes.clear()
        self._shedder.end(self._tenant)


class LoadShedder:
    """Counts and admits the turns of a process. A process has one instance."""

    def __init__(self, limits: LoadLimits, load: ProcessLoad) -> None:
        self._limits = limits
        self._load = load
        self._turns: Counter[str] = Counter()
        self._total = 0
        turns_bytes = limits.turns_bytes or sys.maxsize
        self.held_bytes = ByteBudget("turns", total=turns_bytes, state="in progress")
        """The bytes of requests and histories that turns hold."""
        self.kept_bytes = ByteBudget("histories", total=HISTORIES * turns_bytes)
        """The bytes of histories that connections keep for their next turns."""

    async def begin(self, tenant: str) -> RunningTurn:
        """Admits a turn.

        Raises:
            RequestRateExceeded: the tenant uses its share.
            Unavailable: the process is overloaded.
        """
        await self._require_health()
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
        return RunningTurn(self, tenant)

    def end(self, tenant: str) -> None:
        """Takes note that a turn of a tenant has ended."""
        self._total -= 1
        self._turns[tenant] -= 1
        if not self._turns[tenant]:
            del self._turns[tenant]

    async def _require_health(self) -> None:
        if self._limits.lag_s and self._load.lag_s >= self._limits.lag_s:
            raise self._shed("lag", "The server is overloaded.", LAG_RETRY_MS)
        if await self._load.uses_more_than(MEMORY_SHARE_MAX):
            raise self._shed("memory", "The server is short of memory.", MEMORY_RETRY_MS)

    def _shed(self, limit: str, why: str, retry_ms: int) -> Unavailable:
        metrics.ADMISSION_REJECTED.of(limit).add()
        wait_ms = round(retry_ms * random.uniform(1, 2))  # noqa: S311 - jitter: clients that retry together are shed again
        return Unavailable(f"{why} Please try again in {wait_ms / 1000:g}s.", retry_after_ms=wait_ms)
