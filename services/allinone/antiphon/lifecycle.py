"""Starting and stopping of a process: its parts start in order, and stop in the opposite order after a signal.

If a part fails to start, the parts before it are stopped. If a part fails to stop, the others are stopped all the same,
and the process ends with the error. The first SIGTERM or SIGINT begins the drain (stop_signals.py).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Protocol

from antiphon import event_loop, stop_signals
from antiphon_core import loop_lag
from antiphon_core.drain_time import DrainTime

log = logging.getLogger(__name__)


class Part(Protocol):
    """A part of a process, such as a server, that runs as long as the process."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None:
        """Returns when the part can be used."""

    async def stop(self) -> None:
        """Rejects new work, waits for running work as long as the part's own settings say, then releases resources."""


@contextmanager
def building() -> Iterator[None]:
    """A context for the construction of parts, without garbage collection. The modules and objects that exist at its
    end live as long as the process and are excluded from later collections, whose pauses would delay streams by tens of
    milliseconds."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Group:
    """Parts that start in order and stop at the same time, because none of them needs another one to drain."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self.name = ", ".join(part.name for part in parts)

    async def start(self) -> None:
        async with AsyncExitStack() as started:
            for part in self._parts:
                await part.start()
                started.push_async_callback(part.stop)
            started.pop_all()

    async def stop(self) -> None:
        stopped = await asyncio.gather(*(part.stop() for part in self._parts), return_exceptions=True)
        for failure in stopped:
            if isinstance(failure, BaseException):
                raise failure


def _log_signal(number: signal.Signals) -> None:
    log.info("%s: draining; a second signal ends the process at once", number.name)


async def run(
    parts: Sequence[Part],
    *,
    on_started: Callable[[], None],
    on_signal: Callable[[signal.Signals], None] = _log_signal,
    drain_time: DrainTime | None = None,
) -> None:
    """Runs the parts until a signal arrives. `on_started` is called once, when all of them are up. `on_signal` is
    called once, before they stop. `drain_time` begins with the signal."""
    stopping = asyncio.Event()

    def begin_stop(number: signal.Signals) -> None:
        stopping.set()
        if drain_time is not None:
            drain_time.begin()
        on_signal(number)

    with stop_signals.handle_stop_signals(begin_stop):
        async with AsyncExitStack() as started:
            for part in parts:
                if not await _start_unless(stopping, part):
                    return
                started.push_async_callback(_stop, part)
            event_loop.spare_garbage_collection()
            on_started()
            async with loop_lag.PROCESS.measure():
                await stopping.wait()


async def _stop(part: Part) -> None:
    log.info("stopping %s", part.name)
    await part.stop()


async def _start_unless(stopping: asyncio.Event, part: Part) -> bool:
    """Starts a part. Returns False, with the start cancelled, if a signal came first."""
    starting = asyncio.create_task(part.start())
    signalled = asyncio.create_task(stopping.wait())
    both: set[asyncio.Task[Any]] = {starting, signalled}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    return False
