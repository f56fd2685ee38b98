"""Returns memory to the system that nothing uses any more, and that still counts as memory of the process.

trim         The C library keeps freed memory in its arenas, where small objects that live on lie between large ones
             that are gone. It takes 0.1 to 0.5 s for a gigabyte, and runs in a thread: the event loop waits 25 to
             50 ms for memory that other threads have freed, not 400. It waits for all of the loop's own memory.
collection   Cyclic garbage waits for a collection, which is rare in a running process (event_loop.py). It stops the
             loop for 0.1 s for each million objects, in any thread: it holds the GIL, and finalizers expect the
             loop's thread. It runs only if trimming was not enough.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable

from antiphon_core.telemetry import metrics

RETURNED_EVERY_S = 5.0
COLLECTING_SHARE_MAX = 0.01
"""The part of the time that collections may take. One of 0.8 s, with millions of objects in running turns, is repeated
after 80 s: such a process is short of memory that is in use."""
_MALLOC_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc. Other C libraries return memory by themselves."""


def trim() -> None:
    """Returns free memory of the C library to the system. Releases the GIL meanwhile."""
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(0)


class FreeMemory:
    """The free memory of a process, which has one instance."""

    def __init__(
        self,
        *,
        trim: Callable[[], None] = trim,
        collect: Callable[[], object] = gc.collect,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trim = trim
        self._collect = collect
        self._now_s = now_s
        self._running: asyncio.Task[None] | None = None
        self._next_s = float("-inf")
        self._next_collection_s = float("-inf")

    async def give_back(self, is_enough: Callable[[], bool]) -> bool:
        """Trims, and collects if that was not enough. Does nothing and returns False within RETURNED_EVERY_S of the
        last time. Callers at the same time wait for the same run."""
        if self._running is None or self._running.done():
            if self._now_s() < self._next_s:
                return False
            self._running = asyncio.create_task(self._run(is_enough), name="return of free memory")
        await asyncio.shield(self._running)
        return True

    async def _run(self, is_enough: Callable[[], bool]) -> None:
        await self._trim_in_thread()
        if not is_enough() and self._now_s() >= self._next_collection_s:
            self._collect_in_loop()
            await self._trim_in_thread()
        self._next_s = self._now_s() + RETURNED_EVERY_S

    async def _trim_in_thread(self) -> None:
        await asyncio.to_thread(self._trim)
        metrics.MEMORY_RETURNED.of("trim").add()

    def _collect_in_loop(self) -> None:
        begun_s = self._now_s()
        self._collect()
        ended_s = self._now_s()
        self._next_collection_s = ended_s + (ended_s - begun_s) / COLLECTING_SHARE_MAX
        metrics.MEMORY_RETURNED.of("collection").add()


PROCESS = FreeMemory()
"""The free memory of this process, of all its targets together."""
