"""The end of an event log as a value, and the one step that it can take, apart from any engine.

    open at n ──append k at n──> open at n + k
              └─append k at n, terminal──> closed at n + k

An append that is there already is answered first, whatever became of the log and of the lease since: its writer asks
again because an answer got lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_core.errors import LogClosed, PositionMismatch
from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_store.backends.admission import is_expired


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log ends; the default is one that was never written to."""

    next_position: int = 0
    closed: bool = False
    expires_at_ms: int = 0

    def is_there(self, now_ms: int) -> bool:
        return self.next_position > 0 and not is_expired(self.expires_at_ms, now_ms)


NO_LOG = LogState()


def batch_of(append: EventAppend) -> EventBatch:
    """What is stored of an append."""
    return EventBatch(
        first_sequence=append.expected_position,
        count=append.count,
        frames=append.frames,
        terminal=append.terminal,
        checkpoints=() if append.checkpoint is None else (append.checkpoint,),
    )


def next_position(append: EventAppend) -> int:
    return append.expected_position + append.count


def extended(state: LogState, append: EventAppend, *, ttl_ms: int, now_ms: int) -> LogState:
    """The log with the append at its end. LogClosed, PositionMismatch."""
    if state.closed:
        raise LogClosed.of(append.response_id)
    if append.expected_position != state.next_position:
        raise PositionMismatch.of(append.response_id, expected=append.expected_position, actual=state.next_position)
    return LogState(next_position(append), append.terminal, now_ms + ttl_ms)
