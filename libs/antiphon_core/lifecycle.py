"""Starting and stopping: parts start in order, and stop in the opposite order when a signal asks for it.

A part that fails to start stops those before it. SIGTERM and SIGINT begin the drain; a second one ends it at once.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

log = logging.getLogger(__name__)


class Part(Protocol):
    """Something that runs for as long as the process does."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None:
        """Returns when the part can be used."""

    async def stop(self, grace_s: float) -> None:
        """Refuses new work, lets running work end for at most `grace_s`, then lets go of everything."""


async def run(parts: Sequence[Part], *, grace_s: float, on_started: Callable[[], None]) -> None:
    """Runs the parts until a signal arrives. `on_started` is called once, when all of them are up."""
    stopping = _on_signals()
    started: list[Part] = []
    try:
        for part in parts:
            starting = asyncio.ensure_future(part.start())
            await _either(starting, stopping)
            if not starting.done():
                starting.cancel()
                break
            starting.result()
            started.append(part)
        else:
            on_started()
            await stopping.wait()
    finally:
        for part in reversed(started):
            log.info("stopping %s", part.name)
            await part.stop(grace_s)


async def _either(work: asyncio.Future[None], stopping: asyncio.Event) -> None:
    """Waits for the work or the signal, whichever comes first."""
    signalled = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()


def _on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        log.info("%s: draining; once more to stop at once", number.name)
        stopping.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    return stopping
