"""How long the phases of one request took, for the header `Server-Timing` of its answer.

A phase is noted where it ends. The answer's head shows those that have ended by then: all of them where an answer is
sent whole, and what came before the first event where it is streamed.
"""

from __future__ import annotations

from contextvars import ContextVar

HEADER = "Server-Timing"

START = "start"
"""History, idempotency key, and waiting for the session."""
FIRST_TOKEN = "first-token"  # noqa: S105 - no secret
"""From the acceptance of the turn to the first output."""
COMMIT = "commit"
"""Until the record was durable."""
TOTAL = "total"
"""From the request to the head of the answer."""

_current: ContextVar[dict[str, float] | None] = ContextVar("phases", default=None)


def begin() -> None:
    """From here on this task, and those that it starts, work on another request."""
    _current.set({})


def note(phase: str, seconds: float) -> None:
    """A phase of the request of this task has ended. Does nothing where there is no request."""
    noted = _current.get()
    if noted is not None:
        noted[phase] = seconds


def header(total_s: float) -> str:
    """The value of the header: milliseconds by phase."""
    noted = (_current.get() or {}) | {TOTAL: total_s}
    return ", ".join(f"{phase};dur={seconds * 1000:.1f}" for phase, seconds in noted.items())
