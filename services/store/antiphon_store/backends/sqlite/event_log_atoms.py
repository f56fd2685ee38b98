"""The atoms of `roles.event_logs` as functions of a connection and the time; see atoms.py."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from antiphon_core.errors import LogNotFound
from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.backends import log_states
from antiphon_store.backends.log_states import NO_LOG, LogState
from antiphon_store.backends.roles.event_logs import LogPage
from antiphon_store.backends.sqlite import event_log_rows as rows
from antiphon_store.backends.sqlite import fences


def append(
    connection: sqlite3.Connection, tenant: str, append: EventAppend, fence: Fence | None, *, ttl_ms: int, now_ms: int
) -> int:
    log, state = _current(connection, tenant, append.response_id, now_ms)
    if log is not None and append.expected_position < state.next_position and _has_batch(connection, log, append):
        return log_states.next_position(append)
    fences.require(connection, tenant, fence, now_ms)
    return _extend(connection, tenant, append, log, log_states.extended(state, append, ttl_ms=ttl_ms, now_ms=now_ms))


def extend(connection: sqlite3.Connection, tenant: str, append: EventAppend, *, ttl_ms: int, now_ms: int) -> None:
    """An append that is part of another atom, which has looked at its fence and whether it is a repetition."""
    log, state = _current(connection, tenant, append.response_id, now_ms)
    _extend(connection, tenant, append, log, log_states.extended(state, append, ttl_ms=ttl_ms, now_ms=now_ms))


def read(
    connection: sqlite3.Connection, tenant: str, response_id: str, *, position: int, max_bytes: int, now_ms: int
) -> LogPage:
    end: LogState | None = None
    batches: list[EventBatch] = []
    size_bytes = 0
    with closing(rows.read(connection, tenant, response_id, position=position, now_ms=now_ms)) as found:
        for state, batch in found:
            end = state
            if batch is not None:
                batches.append(batch)
                size_bytes += len(batch.frames)
            if size_bytes >= max_bytes:
                break
    if end is None:
        raise LogNotFound.of(response_id)
    return LogPage(tuple(batches), end.next_position, end.closed)


def _has_batch(connection: sqlite3.Connection, log: int, append: EventAppend) -> bool:
    """Whether the log holds this very batch."""
    found = rows.read_batch(connection, log, append.response_id, append.expected_position)
    return found == log_states.batch_of(append)


def _extend(connection: sqlite3.Connection, tenant: str, append: EventAppend, log: int | None, state: LogState) -> int:
    """Writes the batch and where the log ends now."""
    if log is None:
        log = rows.begin(connection, tenant, append.response_id, state)
    else:
        rows.extend(connection, log, state)
    rows.insert_batch(connection, log, append.response_id, log_states.batch_of(append))
    return state.next_position


def _current(connection: sqlite3.Connection, tenant: str, response_id: str, now_ms: int) -> tuple[int | None, LogState]:
    """The log as it is now. What is left of an expired one goes: its place is needed."""
    log, state = rows.find(connection, tenant, response_id) or (None, NO_LOG)
    if log is not None and not state.is_there(now_ms):
        rows.drop(connection, log)
        return None, NO_LOG
    return log, state
