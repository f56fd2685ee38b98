"""The lag of the event loop: how late it runs its callbacks. One blocking call delays every request of the process.

A timer is due every PERIOD_S; the lag is how much later it runs. Causes are a call that blocks the loop, a library that
keeps the GIL, a pause of the garbage collector, or a machine without a free processor.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from operator import itemgetter

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.log_limit import LogLimit

log = logging.getLogger(__name__)

PERIOD_S = 0.1
RECENT_S = 10.0
STANDING_COUNT = 3
WARNING_S = 0.25
WARNING_EVERY_S = 60.0
_LAG_S = itemgetter(1)


class LoopLag:
    """The measured lag of one event loop."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self.max_s = 0.0
        """Since the process started."""
        self.standing_s = 0.0
        """The smallest of the last STANDING_COUNT measurements; near 0 if the loop was only blocked once."""
        self._recent: deque[tuple[float, float]] = deque()
        self._log_limit = LogLimit(WARNING_EVERY_S)

    @property
    def recent_max_s(self) -> float:
        """The longest lag within RECENT_S before the last measurement."""
        return max((lag_s for _, lag_s in self._recent.copy()), default=0.0)

    @asynccontextmanager
    async def measure(self) -> AsyncIterator[None]:
        """Measures the running loop inside this context."""
        watching = asyncio.create_task(self._watch(), name="loop lag")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    def note(self, lag_s: float, *, now_s: float) -> None:
        """Takes one measurement, made at `now_s` of a monotonic clock."""
        self.last_s = lag_s
        self.max_s = max(self.max_s, lag_s)
        metrics.LOOP_LAG.of().observe(lag_s)
        self._recent.append((now_s, lag_s))
        while self._recent[0][0] < now_s - RECENT_S:
            self._recent.popleft()
        if len(self._recent) >= STANDING_COUNT:
            self.standing_s = min(islice(reversed(self._recent), STANDING_COUNT), key=_LAG_S)[1]
        if lag_s >= WARNING_S and self._log_limit.count(now_s):
            log.warning(
                "the event loop was blocked for %.0f ms: every request of this process waited as long. The machine may "
                "have no free processor; otherwise this is a fault of the server.",
                lag_s * 1000,
            )

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            now_s = loop.time()
            self.note(max(0.0, now_s - due_s), now_s=now_s)


PROCESS = LoopLag()
"""The lag of this process's event loop, measured by `lifecycle.run`."""
metrics.LOOP_LAG_MAX.of().set_function(lambda: PROCESS.recent_max_s)
