"""CPU work that would block the event loop: parsing large bodies, rendering, tokenising, sealing.

The caller knows how many bytes the work is about. Small work runs inline, because a hop to a thread and back costs
about 0.1 ms. Large work waits in a queue, first come, first served, for one of a few threads of the process. With
`asyncio.to_thread` a burst of large requests would take all threads of the default executor, and files and DNS would
wait behind them. Cancelling a caller that waits removes its work from the queue; work that has begun runs to its end.

Only one thread of the pool runs Python at a time. Each thread that wants the GIL makes the event loop wait one switch
interval longer, every time that the loop comes back from the kernel: beside one such thread a request of 30 loop
iterations took 8 ms, beside four 22 ms. `without_gil` lets the next thread run while a library works that has released
the GIL.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

INLINE_BYTES_MAX = 16 * 2**10
"""JSON of this size is parsed, validated and normalised within about 3 ms, whatever it says."""
THREADS_MAX = 4


class WorkPool:
    """A few threads for large work. Event loops may share one."""

    def __init__(self, threads: int = 0) -> None:
        """`threads`: 0 for as many as there are processors, but THREADS_MAX at most."""
        count = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="antiphon-work")
        self._turn = threading.Lock()
        self._local = threading.local()

    async def run(self, work: Callable[[], T], *, size_bytes: int, inline_bytes_max: int = INLINE_BYTES_MAX) -> T:
        """Returns what `work` returns: inline if it is about no more than `inline_bytes_max`, or else from a thread.

        Raises what `work` raises. RuntimeError: the pool is closed."""
        if size_bytes <= inline_bytes_max:
            return work()
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, self._take_turn, work)

    @contextmanager
    def without_gil(self) -> Iterator[None]:
        """For a long call into a library that releases the GIL: another thread of the pool runs meanwhile."""
        if not getattr(self._local, "has_turn", False):  # the event loop, or a thread of somebody else
            yield
            return
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()

    def close(self) -> None:
        """Lets go of the threads. Work that waits is cancelled; work that runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take_turn(self, work: Callable[[], T]) -> T:
        with self._turn:
            self._local.has_turn = True
            try:
                return work()
            finally:
                self._local.has_turn = False


PROCESS = WorkPool()
"""The pool of this process. Its threads start with the first large work."""

run = PROCESS.run
without_gil = PROCESS.without_gil
