"""Durations of the phases of a request, for the header `Server-Timing` of its answer.

A phase is recorded when it ends. The header has the phases that ended before the head of the answer was sent: all
phases of a whole answer, and those before the first event of a stream. The times of the engine come with the end of
a turn, so a stream never has them; the metrics have those of all turns.
"""

from __future__ import annotations

from contextvars import ContextVar

HEADER = "Server-Timing"

START = "start"
"""History, idempotency key, and waiting for the session."""
FIRST_TOKEN = "first-token"  # noqa: S105 - no secret
"""From the acceptance of the turn to the first output."""
ENGINE_QUEUE = "engine-queue"
"""The wait in the engine's queue, as the engine measured it."""
PREFILL = "prefill"
"""The reading of the prompt, as the engine measured it."""
COMMIT = "commit"
"""The commit of the record."""
TOTAL = "total"
"""From the request to the head of the answer."""

_current: ContextVar[dict[str, float] | None] = ContextVar("phases", default=None)


def begin() -> None:
    """Begins the phases of a request in this task, and in the tasks that it starts from now on."""
    _current.set({})


def note(phase: str, seconds: float) -> None:
    """Records a phase that has ended. Does nothing outside a request."""
    noted = _current.get()
    if noted is not None:
        noted[phase] = seconds


def header(total_s: float) -> str:
    """The value of the header: each phase with its milliseconds."""
    noted = (_current.get() or {}) | {TOTAL: total_s}
    return ", ".join([f"{phase};dur={seconds * 1000:.1f}" for phase, seconds in noted.items()])
