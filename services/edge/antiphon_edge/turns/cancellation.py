"""Cancellations that got lost on their way.

On Python 3.11 `asyncio.wait_for` swallows the cancellation of a task when what it waits for ends in the same moment
(https://github.com/python/cpython/issues/86296, mended in 3.12). We do not use it, but libraries do: redis-py writes
within it, so a worker that was cancelled during a heartbeat went on as if nothing had happened. A loop around calls to
the store therefore looks whether its task was cancelled: otherwise it might never end.
"""

from __future__ import annotations

import asyncio


def heed() -> None:
    """CancelledError, if the current task was cancelled and did not hear of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
