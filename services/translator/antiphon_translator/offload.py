"""Work on a turn that would hold up the event loop: rendering, encoding, compiling schemas.

Small turns run inline, within about a millisecond. Larger ones wait in a queue, first come, first served, for one of a
few threads of this pool: with `asyncio.to_thread` they could take all threads of the process, and a burst of them would
contend for the GIL. Cancelling a caller that waits removes its work from the queue; what has begun runs to its end.

The threads run in parallel only while the tokenizer library works, which releases the GIL and is most of the time of a
long turn that nobody has sent before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

INLINE_BYTES_MAX = 2_048
"""A turn of this size is rendered and encoded within 1 ms."""
THREADS_MAX = 4


class WorkPool:
    """A few threads for the long turns of a translator."""

    def __init__(self, threads: int = 0) -> None:
        """`threads`: 0 for one fewer than there are processors, but two at least and THREADS_MAX at most."""
        count = threads or max(2, min((os.cpu_count() or 1) - 1, THREADS_MAX))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="antiphon-turns")

    async def run(self, work: Callable[[], T], *, size_bytes: int) -> T:
        """Returns what `work` returns: inline if it is about no more than INLINE_BYTES_MAX, or else in a thread.

        RuntimeError: the pool is closed."""
        if size_bytes <= INLINE_BYTES_MAX:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Lets go of the threads. What waits is cancelled; what runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
