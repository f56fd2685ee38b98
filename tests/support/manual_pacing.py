"""Retries on a clock of the test's own: a pause takes no time, and advances the clock by its longest length."""

from __future__ import annotations

import asyncio
from itertools import accumulate, takewhile

from antiphon_core.retrying import Pacing, RetryPolicy


class ManualPacing:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses_s: list[float] = []
        self.pacing = Pacing(lambda: self.now_s, self._sleep, lambda _shortest, longest: longest)

    async def _sleep(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)
        self.now_s += pause_s
        await asyncio.sleep(0)


def attempts_in(policy: RetryPolicy, limit_s: float) -> int:
    """The attempts at a call that is repeated for `limit_s`, and whose service fails immediately, each time."""
    elapsed_s = accumulate(policy.pauses_s(lambda _shortest, longest: longest), initial=0.0)
    return 1 + sum(1 for _ in takewhile(lambda each_s: each_s < limit_s, elapsed_s))
