"""Cancellations that get lost on their way.

On Python 3.11 `asyncio.wait_for` swallows the cancellation of a task when what it waits for ends in the same moment
(https://github.com/python/cpython/issues/86296, mended in 3.12). redis-py writes within it. A caller that was cancelled
then went on as if nothing had happened: a follower of a silent log for ever, and whoever waited for its end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard() -> Iterator[None]:
    """CancelledError, whatever the block came to, if the current task was cancelled within it."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
