"""CPU work that would block the event loop: parsing large bodies, rendering, tokenising, sealing.

The caller knows how many bytes the work is about. Small work runs inline, because a hop to a thread and back costs
about 0.2 ms. Other work waits for a thread of the process, in one of two lanes, first come, first served: a chat of
20 KiB waited 0.7 to 2.9 s behind twenty inputs of 1 MiB when there was only one. With `asyncio.to_thread` a burst of
large requests would take all threads of the default executor, and files and DNS would wait behind them. Cancelling a
caller that waits removes its work from the lane; work that has begun ends where it next asks `require_wanted`.

Only one thread of a lane runs Python at a time. Each thread that wants the GIL makes the event loop wait one switch
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

INLINE_BYTES_MAX = 64 * 2**10
"""JSON of this size (`jsons.work_bytes`) is parsed, validated and normalised within 5 ms, whatever it says."""
MEDIUM_BYTES_MAX = 256 * 2**10
THREADS_MAX = 4


class WorkPool:
    """A few threads for each lane. Event loops may share a pool."""

    def __init__(self, threads: int = 0) -> None:
        """`threads` of the lane of medium work: 0 for one fewer than there are processors, which leaves one to the
        event loop, but THREADS_MAX at most. Large work has half as many: with three threads on four processors, small
        requests beside two inputs of 1 MB took twice as long at the 90th percentile, and the process 200 MB more."""
        count = threads or max(1, min((os.cpu_count() or 1) - 1, THREADS_MAX))
        self._medium, self._large = _Lane("medium", count), _Lane("large", max(1, count // 2))
        self._local = threading.local()

    async def run(self, work: Callable[[], T], *, size_bytes: int, inline_bytes_max: int = INLINE_BYTES_MAX) -> T:
        """Returns what `work` returns: inline if it is about no more than `inline_bytes_max`, or else from a thread.

        Raises what `work` raises. RuntimeError: the pool is closed."""
        if size_bytes <= inline_bytes_max:
            return work()
        lane = self._medium if size_bytes <= MEDIUM_BYTES_MAX else self._large
        context = copy_context()
        loop = asyncio.get_running_loop()
        caller = _Caller()
        try:
            return await loop.run_in_executor(lane.threads, context.run, self._take_turn, lane, work, caller)
        finally:
            caller.has_left = True

    def require_wanted(self) -> None:
        """For long work, between two of its parts. WorkAbandoned: the caller was cancelled."""
        caller: _Caller | None = getattr(self._local, "caller", None)
        if caller is not None and caller.has_left:
            raise WorkAbandoned

    @contextmanager
    def without_gil(self) -> Iterator[None]:
        """For a long call into a library that releases the GIL: another thread of the lane runs meanwhile."""
        lane: _Lane | None = getattr(self._local, "lane", None)
        if lane is None:  # the event loop, or a thread of somebody else
            yield
            return
        lane.turn.release()
        try:
            yield
        finally:
            lane.turn.acquire()

    def close(self) -> None:
        """Lets go of the threads. Work that waits is cancelled; work that runs ends by itself."""
        for lane in (self._medium, self._large):
            lane.threads.shutdown(wait=False, cancel_futures=True)

    def _take_turn(self, lane: _Lane, work: Callable[[], T], caller: _Caller) -> T:
        with lane.turn:
            self._local.lane, self._local.caller = lane, caller
            try:
                self.require_wanted()
                return work()
            finally:
                self._local.lane = self._local.caller = None


class WorkAbandoned(Exception):
    """The work was given up between two of its parts, because nobody waits for it any more."""


class _Caller:
    """Whether somebody still waits for one piece of work; written by the event loop, read by a thread."""

    has_left = False


class _Lane:
    """Threads for work of about one size, and the lock of the one among them that runs Python."""

    def __init__(self, name: str, threads: int) -> None:
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix=f"antiphon-work-{name}")
        self.turn = threading.Lock()


PROCESS = WorkPool()
"""The pool of this process. Its threads start with the first large work."""

run = PROCESS.run
without_gil = PROCESS.without_gil
require_wanted = PROCESS.require_wanted
