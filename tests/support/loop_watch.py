"""Watches how long single callbacks of asyncio's event loop take, in CPU time of the loop's own thread.

CPU time excludes the time that a thread waits on a busy machine, but the same work takes several times as much of it
while others use the caches and the other half of the core. So each slow callback is followed by a yardstick, work that
is always equal, and counts for as long as it would take where the yardstick takes YARDSTICK_S. The watch works only
with asyncio's own loop, whose handles are Python objects.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SAMPLE_S = 0.005
YARDSTICK_S = 0.0015
"""The CPU time of the yardstick on one core of a quiet server of 2025."""
TRIES = 10
"""The best of a few tries counts, because the yardstick may have more of a shared processor than its callback had."""
STACK_FRAMES = 12
OUTSIDE = ("select", "timed")
"""The functions that the loop's thread is in while no callback runs."""


@dataclass(frozen=True)
class SlowCallback:
    """A slow callback, in CPU time by the yardstick. `stack` is its stack at the last sample."""

    cpu_s: float
    name: str
    stack: str

    def __str__(self) -> str:
        return f"{self.cpu_s * 1000:.0f} ms in {self.name}\n{self.stack}"


@dataclass
class LoopWatch:
    """The callbacks that an event loop ran. `slow` are the callbacks that took at least `least_s`."""

    least_s: float
    slow: list[SlowCallback] = field(default_factory=list)
    callbacks: int = 0
    stack_now: Callable[[], str] = str  # the stack of the running callback at the last sample; "" before the first

    @property
    def longest(self) -> SlowCallback:
        return max(self.slow, key=lambda each: each.cpu_s, default=SlowCallback(0.0, "nothing", ""))

    def report(self) -> str:
        """Returns the longest callbacks, for the message of a failing test."""
        return "\n".join(str(each) for each in sorted(self.slow, key=lambda each: -each.cpu_s)[:5])


def yardstick_s() -> float:
    """Returns the CPU time that fixed work takes now: memory is filled and copied, and small objects are made."""
    before = time.thread_time()
    b"".join([b"x" * 1_000_000] * 4)
    [str(number) for number in range(20_000)]
    return time.thread_time() - before


async def require_short_callbacks(work: Callable[[], Awaitable[None]], *, max_s: float) -> None:
    """Runs `work`, and retries when a callback took `max_s` or longer."""
    reports: list[str] = []
    for _ in range(TRIES):
        with watched_loop(least_s=max_s / 4) as watch:
            await work()
        if watch.longest.cpu_s < max_s:
            return
        reports.append(watch.report())
    raise AssertionError("\n\n".join(reports))


@contextmanager
def watched_loop(*, least_s: float = 0.02) -> Iterator[LoopWatch]:
    """Watches the loop of the calling thread. A second thread samples its stack meanwhile."""
    sampler = _Sampler(threading.get_ident())
    watch = LoopWatch(least_s, stack_now=lambda: sampler.stack)
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        if threading.get_ident() != sampler.thread_id:
            run(handle)
            return
        sampler.stack = ""
        before = time.thread_time()
        run(handle)
        cpu_s, stack = time.thread_time() - before, sampler.stack
        watch.callbacks += 1
        if cpu_s >= least_s:
            watch.slow.append(SlowCallback(cpu_s * YARDSTICK_S / yardstick_s(), repr(handle), stack))

    monkey: Any = asyncio.Handle
    monkey._run = timed
    sampler.start()
    gc.disable()  # a collection would take time for all objects of earlier tests
    try:
        yield watch
    finally:
        gc.enable()
        monkey._run = run
        sampler.stop()


class _Sampler:
    """Samples the stack of a thread, and keeps the last one outside the loop itself."""

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self.stack = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="loop watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            frame = sys._current_frames().get(self.thread_id)
            if frame is not None and frame.f_code.co_name not in OUTSIDE:
                self.stack = "".join(traceback.format_stack(frame, STACK_FRAMES))
