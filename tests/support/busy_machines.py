"""What is measured in time, on machines that may be busy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


async def least(measure: Callable[[], Awaitable[float]], *, most: float, tries: int = 5) -> float:
    """The least of what is measured, again while it is more than `most`: where the machine is busy everything on the
    way is late by itself, but not every time."""
    measured = [await measure()]
    while measured[-1] > most and len(measured) < tries:
        measured.append(await measure())
    return min(measured)
