"""The event loop of every process of ours: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

SWITCH_INTERVAL_S = 0.0005
"""How long a thread of Python code keeps the GIL when the event loop wants it. The loop gives it up whenever it waits
for the kernel. With Python's default of 5 ms a request of 30 loop iterations took 28 ms beside one busy thread, with
0.5 ms 8 ms; alone it takes 4 ms."""
YOUNG_OBJECTS = 10_000
"""New objects that start a garbage collection; Python's default is 700. Turns leave no cycles behind, so collections
free little. With 512 streams they took 8 % of the event loop's time, in pauses of 1, 7 and 80 ms."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a program's coroutine to its end, as `asyncio.run` does."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes event loops; None for asyncio's own. The package needs no uvloop: it is in the extras of the services, and
    installs on CPython for Linux and macOS only."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def spare_garbage_collection() -> None:
    """Has the garbage collector pass over everything that exists now: modules, classes, routes, templates. It collects
    less often from now on.

    Called once, when a process has started. A full collection of an idle edge takes 50 ms, and parsing a body of
    100,000 small values sets one off: it then took 57 ms instead of 6."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
