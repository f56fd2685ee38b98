"""SIGTERM and SIGINT: the first one begins a shutdown, and a second one, of either kind, ends the process at once.

Ending at once runs no cleanup of Python. A KeyboardInterrupt in the middle of a drain printed up to 3,000 lines of
tracebacks, and unloading gRPC while calls ran crashed the process (4 of 8 tries).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_EXIT_STATUS_OF_SIGNALS = 128  # as in shells


def end_at_once(number: int, _frame: FrameType | None = None) -> NoReturn:
    """Ends this process as the signal does by default. The kernel then kills the processes that orphan_guard.py
    started."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(_EXIT_STATUS_OF_SIGNALS + number)  # process 1 of a container survives a signal that has no handler


def end_at_once_on_any() -> None:
    """Makes every signal end the process at once, without a traceback. Call this first in a process that will run
    parts: a signal during its imports and preparations has nothing to drain."""
    for number in SIGNALS:
        signal.signal(number, end_at_once)


@contextmanager
def handle_stop_signals(on_first: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Calls `on_first` in the event loop when the first signal arrives; the second one ends the process at once. The
    handlers that were there before are restored at the end of the block."""
    loop = asyncio.get_running_loop()
    former = {number: signal.getsignal(number) for number in SIGNALS}
    has_first = False

    def receive(number: signal.Signals) -> None:
        nonlocal has_first
        if has_first:  # it arrived while the loop was too busy to handle the first
            end_at_once(number)
        has_first = True
        end_at_once_on_any()  # from now on also while the loop is busy
        on_first(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, receive, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, former[number])
