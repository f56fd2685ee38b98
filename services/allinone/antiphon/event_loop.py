"""The event loop of every Antiphon process: uvloop where it is installed, or else asyncio's own."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the GIL while the event loop waits for it. The loop releases the GIL whenever it
waits for the kernel, and has to get it back. Beside one busy thread, a request of 30 loop iterations took 28 ms with
Python's default of 5 ms, and 8 ms with 0.5 ms; alone it takes 4 ms."""
YOUNG_OBJECTS = 10_000
"""The number of new objects that starts a garbage collection; Python's default is 700. Turns leave few reference
cycles, so collections free little. With the default and 512 streams they took 8 % of the event loop's time, in pauses
of 1, 7 and 80 ms."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a program's coroutine to its end, as `asyncio.run` does."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's factory, or None for asyncio's own loop. uvloop is optional: the extras of the services have it,
    and it is available for CPython on Linux and macOS only."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def spare_garbage_collection() -> None:
    """Excludes all objects that exist now (modules, classes, routes, templates) from garbage collection, and makes
    collections rarer.

    Called once, when a process has started. Otherwise a full collection of an idle edge takes 50 ms: parsing a body of
    100,000 small values caused one and took 57 ms instead of 6."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
