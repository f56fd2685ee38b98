"""Hedged calls: one that is not answered soon is made again, of other replicas, and the first answer counts.

A process that is frozen keeps its connections, and nothing tells that it will not answer. Replicas have their turns,
but calls of others come in between: two at once are of different replicas. Only for calls that change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

HEDGE_AFTER_S = 1.0
HEDGES = 2

_Answer = TypeVar("_Answer")


async def hedged(call: Callable[[], Awaitable[_Answer]], *, after_s: float = HEDGE_AFTER_S) -> _Answer:
    """The first answer, or the error of the first call that ends with one. The other calls are cancelled."""
    calls = {asyncio.ensure_future(call())}
    try:
        done, _ = await asyncio.wait(calls, timeout=after_s)
        if not done:
            calls |= {asyncio.ensure_future(call()) for _ in range(HEDGES)}
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for each in calls:
            each.cancel()
