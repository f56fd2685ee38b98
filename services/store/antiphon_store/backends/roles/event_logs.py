"""The operations of event logs (`decisions.logs`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.store import Fence


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of a log, as of one moment. `batches` are those that were appended, whole and in order."""

    batches: tuple[EventBatch, ...]
    next_position: int
    closed: bool


class EventLogAtoms(Protocol):
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        """Appends one batch: the next position. In one step: whether the batch is there already (then nothing changes),
        the fence (a job's when there is a job of its `session_id`, else a session's), the end of the log, the new
        batch, the log's new end and that it expires in `ttl_ms`.

        An expired log is none: the next append begins anew at 0. PositionMismatch, LogClosed, StaleFence."""

    async def read_log(self, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        """The batches from the one that holds `position` on, until their frames are `max_bytes` or more.

        LogNotFound."""
