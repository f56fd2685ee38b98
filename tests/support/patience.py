"""Waiting on a machine that is busy with something else: what is not under test gets all the time that it may need.

Nobody waits for longer than it takes: a generous limit costs nothing when the thing comes early.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from antiphon_core.errors import Unavailable

PATIENCE_S = 60.0
"""Longer than any machine is busy with something else."""
PAUSE_S = 0.05

_Answer = TypeVar("_Answer")


async def patiently(
    ask: Callable[[], Awaitable[_Answer]], passing: type[Exception] | tuple[type[Exception], ...] = Unavailable
) -> _Answer:
    """The answer, asked for again while it is an error that passes: just after a restart, or when somebody's short time
    limit ran out. In the end the error."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except passing:
            if time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(PAUSE_S)


async def until(holds: Callable[[], bool], what: str) -> None:
    """Waits until it holds. AssertionError: it never did."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"{what}: not within {PATIENCE_S:g} s"
        await asyncio.sleep(0.005)


async def least(measure: Callable[[], Awaitable[float]], *, most: float, tries: int = 5) -> float:
    """The least of what is measured, again while it is more than `most`: where the machine is busy everything on the
    way is late by itself, but not every time."""
    measured = [await measure()]
    while measured[-1] > most and len(measured) < tries:
        measured.append(await measure())
    return min(measured)
