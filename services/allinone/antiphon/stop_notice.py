"""The notice of a process that a signal tells to stop: the work that still runs, and how to end at once."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from typing import Protocol

from antiphon.targets import Process

log = logging.getLogger(__name__)


class Drained(Protocol):
    """A part that waits for running work, up to `drain_s`, when it stops."""

    work: str
    """A noun in the singular for one piece of it."""

    @property
    def running(self) -> int: ...

    @property
    def drain_s(self) -> float: ...


def log_signal(process: Process, number: signal.Signals) -> None:
    log.info("%s: %s; a second signal ends the process at once", number.name, _draining(process))


def for_terminal(process: Process) -> str:
    """The line for a person who pressed Ctrl-C."""
    return f"\nStopping: {_draining(process)}; press Ctrl-C again to end at once."


def _draining(process: Process) -> str:
    busy = [part for part in _parts(process) if part.running]
    if not busy:
        return "nothing runs"
    works = " and ".join(_count_text(part.running, part.work) for part in busy)
    return f"{works} still running, with up to {max(part.drain_s for part in busy):g} s to end"


def _count_text(count: int, work: str) -> str:
    return f"{count} {work}{'' if count == 1 else 's'}"


def _parts(process: Process) -> Iterator[Drained]:
    for part in (process.edge, process.worker, process.translator, process.store):
        if part is not None:
            yield part
