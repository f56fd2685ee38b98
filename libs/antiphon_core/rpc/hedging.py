"""Hedged calls: if a call is not answered soon, it is sent to other replicas, too, and the first answer is used.

A frozen process keeps its connections, so only the missing answer shows that it is frozen. Calls go to replicas round
robin, but calls of other tasks come in between. So two hedges are sent at once, which go to different replicas, and at
least one of them avoids the frozen one. Only for calls that change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

HEDGE_AFTER_S = 1.0
HEDGES = 2

_Answer = TypeVar("_Answer")


async def hedged(call: Callable[[], Awaitable[_Answer]], *, after_s: float = HEDGE_AFTER_S) -> _Answer:
    """Returns or raises the result of the first call that ends. The other calls are cancelled."""
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
