"""The event loop of every process of ours: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a program's coroutine to its end, as `asyncio.run` does."""
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
