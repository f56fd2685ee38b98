"""Waits with long timeouts, for tests on a busy machine.

A wait ends as soon as its condition holds, so a long timeout costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from antiphon_core.errors import Unavailable

WAIT_MAX_S = 60.0
"""The timeout of waits that are not the subject of a test."""
PAUSE_S = 0.05

_Answer = TypeVar("_Answer")


async def with_retries(
    ask: Callable[[], Awaitable[_Answer]], passing: type[Exception] | tuple[type[Exception], ...] = Unavailable
) -> _Answer:
    """Calls `ask` until it raises no error of `passing`, and returns its answer. Needed after a restart, or if a short
    timeout may expire. Raises the last error after WAIT_MAX_S."""
    deadline_s = time.monotonic() + WAIT_MAX_S
    while True:
        try:
            return await ask()
        except passing:
            if time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(PAUSE_S)


async def until(holds: Callable[[], bool], what: str) -> None:
    """Waits until `holds` returns True. AssertionError: it does not within WAIT_MAX_S."""
    deadline_s = time.monotonic() + WAIT_MAX_S
    while not holds():
        assert time.monotonic() < deadline_s, f"{what}: not within {WAIT_MAX_S:g} s"
        await asyncio.sleep(0.005)


async def least(measure: Callable[[], Awaitable[float]], *, most: float, tries: int = 5) -> float:
    """Measures up to `tries` times until the value is at most `most`, and returns the least value: on a busy machine a
    single value may be high."""
    measured = [await measure()]
    while measured[-1] > most and len(measured) < tries:
        measured.append(await measure())
    return min(measured)
