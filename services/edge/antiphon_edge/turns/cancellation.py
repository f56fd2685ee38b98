"""Cancellations that got lost on their way.

What waits for a store can swallow the CancelledError of who called it: with Redis a worker that was cancelled during a
heartbeat went on in one of four runs. A loop around such calls looks whether its task was cancelled, or it never ends.
"""

from __future__ import annotations

import asyncio


def heed() -> None:
    """CancelledError, if the current task was cancelled and did not hear of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
