"""Cancellations that got lost on their way.

Seen: with Redis, a worker that was cancelled during a heartbeat went on as if nothing had happened, in one of four
runs. Where its CancelledError was swallowed is not known. So a loop around calls to the store looks whether its task
was cancelled: otherwise it might never end.
"""

from __future__ import annotations

import asyncio


def heed() -> None:
    """CancelledError, if the current task was cancelled and did not hear of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
