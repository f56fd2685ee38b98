"""The event logs of the memory engine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from antiphon_core.errors import LogNotFound
from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.backends import log_states
from antiphon_store.backends.base import LogEnd
from antiphon_store.backends.log_states import NO_LOG, LogState
from antiphon_store.backends.roles.event_logs import LogPage


@dataclass(slots=True, eq=False)
class MemoryLog:
    state: LogState = NO_LOG
    batches: list[EventBatch] = field(default_factory=list)

    def index_of(self, position: int) -> int:
        """Where the batch that holds `position` is; behind the last one when none does."""
        if position >= self.state.next_position:
            return len(self.batches)
        return bisect_right(self.batches, position, key=lambda batch: batch.first_sequence) - 1

    def extend(self, append: EventAppend, state: LogState) -> None:
        self.batches.append(log_states.batch_of(append))
        self.state = state

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.frames) for batch in self.batches)


class _Memory(Protocol):
    """What the engine has for its topics."""

    _logs: dict[tuple[str, str], MemoryLog]

    def _now_ms(self) -> int: ...

    def _open_log(self, tenant: str, response_id: str, now_ms: int) -> MemoryLog: ...

    def _require_fence(self, tenant: str, fence: Fence | None, now_ms: int) -> None: ...


class MemoryEventLogs:
    """Implements `roles.event_logs.EventLogAtoms` for MemoryBackend."""

    async def append_events(
        self: _Memory, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int
    ) -> int:
        now_ms = self._now_ms()
        log = self._open_log(tenant, append.response_id, now_ms)
        if log_states.batch_of(append) in log.batches[log.index_of(append.expected_position) :][:1]:
            return log_states.next_position(append)
        self._require_fence(tenant, fence, now_ms)
        log.extend(append, log_states.extended(log.state, append, ttl_ms=ttl_ms, now_ms=now_ms))
        self._logs[tenant, append.response_id] = log
        return log.state.next_position

    async def read_log(self: _Memory, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        now_ms = self._now_ms()
        log = self._logs.get((tenant, response_id))
        if log is None or not log.state.is_there(now_ms):
            raise LogNotFound.of(response_id)
        batches, size_bytes = [], 0
        for batch in islice(log.batches, log.index_of(position), None):
            batches.append(batch)
            size_bytes += len(batch.frames)
            if size_bytes >= max_bytes:
                break
        return LogPage(tuple(batches), log.state.next_position, log.state.closed)

    def _open_log(self: _Memory, tenant: str, response_id: str, now_ms: int) -> MemoryLog:
        """The log as it is now; a new one when there is none."""
        log = self._logs.get((tenant, response_id))
        return log if log is not None and log.state.is_there(now_ms) else MemoryLog()

    def _end_of_log(self: _Memory, tenant: str, end: LogEnd | None, now_ms: int) -> Callable[[], None]:
        """Checks what a write brings for its response's log: the step that appends it. PositionMismatch, LogClosed."""
        if end is None:
            return lambda: None
        log = self._open_log(tenant, end.append.response_id, now_ms)
        state = log_states.extended(log.state, end.append, ttl_ms=end.ttl_ms, now_ms=now_ms)

        def append() -> None:
            log.extend(end.append, state)
            self._logs[tenant, end.append.response_id] = log

        return append
