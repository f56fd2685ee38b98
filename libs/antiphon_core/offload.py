"""Thread pools for CPU work that would block the event loop: parsing large bodies, rendering, tokenising, sealing.

The caller passes the number of bytes that the work processes. Small work runs inline, because a thread costs about
0.2 ms. Other work queues for a thread in one of two lanes, for medium and large work: with a single queue, a chat of
20 KiB waited 0.7 to 2.9 s behind twenty inputs of 1 MiB. `asyncio.to_thread` is not used, because a burst of large
requests would occupy the default executor, which files and DNS need. If a waiting caller is cancelled, its work is
removed from the queue; work that has begun ends at its next call of `require_wanted`.

Only one thread of a lane runs Python code at a time. Each thread that wants the GIL makes the event loop wait one
switch interval longer whenever the loop returns from the kernel: beside one such thread a request of 30 loop iterations
took 8 ms, beside four 22 ms. `without_gil` lets the next thread run while a library works without the GIL.
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
"""JSON of this size (`jsons.work_bytes`) is parsed, validated and normalised within 5 ms, whatever its content."""
MEDIUM_BYTES_MAX = 256 * 2**10
THREADS_MAX = 4


class WorkPool:
    """Two lanes of a few threads each. Several event loops may share a pool."""

    def __init__(self, threads: int = 0) -> None:
        """`threads`: those of the lane for medium work. 0 is one fewer than there are processors, THREADS_MAX at most,
        which leaves a processor to the event loop. The lane for large work has half as many: with three on four
        processors, the 90th percentile of small requests beside two inputs of 1 MB doubled, and the process took 200 MB
        more."""
        count = threads or max(1, min((os.cpu_count() or 1) - 1, THREADS_MAX))
        self._medium, self._large = _Lane("medium", count), _Lane("large", max(1, count // 2))
        self._local = threading.local()

    async def run(self, work: Callable[[], T], *, size_bytes: int, inline_bytes_max: int = INLINE_BYTES_MAX) -> T:
        """Returns the result of `work`, run inline if `size_bytes` is at most `inline_bytes_max`, or else in a thread.

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
        """Checks for cancellation; long work calls it between its parts. WorkAbandoned: the caller was cancelled."""
        caller: _Caller | None = getattr(self._local, "caller", None)
        if caller is not None and caller.has_left:
            raise WorkAbandoned

    @contextmanager
    def without_gil(self) -> Iterator[None]:
        """A context for a long call into a library that releases the GIL: another thread of the lane runs meanwhile."""
        lane: _Lane | None = getattr(self._local, "lane", None)
        if lane is None:  # called inline, or from a thread outside the pool
            yield
            return
        lane.turn.release()
        try:
            yield
        finally:
            lane.turn.acquire()

    def close(self) -> None:
        """Cancels queued work and returns at once. Threads end after the work that they run."""
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
    """The work was stopped by `require_wanted`, because its caller was cancelled."""


class _Caller:
    """Whether the caller of one piece of work has stopped waiting. Written by the event loop, read by a thread."""

    has_left = False


class _Lane:
    """Threads for medium or large work, and the lock that the one thread that runs Python code holds."""

    def __init__(self, name: str, threads: int) -> None:
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix=f"antiphon-work-{name}")
        self.turn = threading.Lock()


PROCESS = WorkPool()
"""The pool of this process. Its threads start with the first work that is not small."""

run = PROCESS.run
without_gil = PROCESS.without_gil
require_wanted = PROCESS.require_wanted
