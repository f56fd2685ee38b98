"""Rows of event logs as values. Tables and columns: migrations/*_event_logs.sql.

Functions here are parts of atoms: they run inside the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any
from zlib import crc32

from antiphon_core.ports.event_logs import Checkpoint, EventBatch
from antiphon_store.backends import named_queries
from antiphon_store.backends.log_states import LogState
from antiphon_store.backends.node_rows import require_intact

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "event_logs.sql")

_READ_END = QUERIES["read_log_end"]
_READ_LOG = QUERIES["read_log"]
_READ_BATCH = QUERIES["read_batch"]
_BEGIN = QUERIES["begin_log"]
_EXTEND = QUERIES["extend_log"]
_INSERT_BATCH = QUERIES["insert_batch"]
_DROP_BATCHES = QUERIES["drop_batches"]
_DROP_LOG = QUERIES["drop_log"]


def find(connection: sqlite3.Connection, tenant: str, response_id: str) -> tuple[int, LogState] | None:
    """The row and the end of a log that is stored, expired or not."""
    row = connection.execute(_READ_END, {"tenant": tenant, "response_id": response_id}).fetchone()
    return (row[0], LogState(row[1], bool(row[2]), row[3])) if row else None


def begin(connection: sqlite3.Connection, tenant: str, response_id: str, state: LogState) -> int:
    """A new log: its row."""
    columns = {"tenant": tenant, "response_id": response_id, **_end(state)}
    log = connection.execute(_BEGIN, columns).lastrowid
    assert log is not None  # noqa: S101 - an INSERT always has one
    return log


def extend(connection: sqlite3.Connection, log: int, state: LogState) -> None:
    connection.execute(_EXTEND, {"log": log, **_end(state)})


def drop(connection: sqlite3.Connection, log: int) -> None:
    connection.execute(_DROP_BATCHES, {"log": log})
    connection.execute(_DROP_LOG, {"log": log})


def insert_batch(connection: sqlite3.Connection, log: int, response_id: str, batch: EventBatch) -> None:
    checkpoint = batch.checkpoints[0] if batch.checkpoints else None
    offset = None if checkpoint is None else checkpoint.offset
    token_ids = b"" if checkpoint is None else _pack(checkpoint.token_ids)
    columns = {
        "first_sequence": batch.first_sequence,
        "count": batch.count,
        "terminal": int(batch.terminal),
        "checkpoint_offset": offset,
        "token_ids": token_ids,
        "frames": batch.frames,
    }
    connection.execute(_INSERT_BATCH, {"log": log, "crc": _checksum(response_id, *columns.values()), **columns})


def read_batch(connection: sqlite3.Connection, log: int, response_id: str, position: int) -> EventBatch | None:
    """The batch that was appended at `position`."""
    row = connection.execute(_READ_BATCH, {"log": log, "position": position}).fetchone()
    return _to_batch(response_id, row) if row else None


def read(
    connection: sqlite3.Connection, tenant: str, response_id: str, *, position: int, now_ms: int
) -> Generator[tuple[LogState, EventBatch | None], None, None]:
    """A log that has not expired, as of one moment: its end, with each batch from the one that holds `position` on,
    and once alone when there is none. To be closed by whoever stops early."""
    parameters = {"tenant": tenant, "response_id": response_id, "position": position, "now_ms": now_ms}
    with closing(connection.execute(_READ_LOG, parameters)) as rows:
        for next_position, closed, *batch in rows:
            state = LogState(next_position, bool(closed))
            yield state, _to_batch(response_id, batch) if batch[0] is not None else None


def _end(state: LogState) -> dict[str, int]:
    return {
        "next_position": state.next_position,
        "closed": int(state.closed),
        "expires_at_ms": state.expires_at_ms,
    }


def _to_batch(response_id: str, row: Sequence[Any]) -> EventBatch:
    first_sequence, count, terminal, crc, offset, token_ids, frames = row
    found = _checksum(response_id, first_sequence, count, terminal, offset, token_ids, frames)
    require_intact(response_id, crc, found)
    checkpoints = () if offset is None else (Checkpoint(offset, _unpack(token_ids)),)
    return EventBatch(first_sequence, count, frames, bool(terminal), checkpoints)


def _pack(token_ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(token_ids)}I", *token_ids)


def _unpack(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _checksum(response_id: str, *columns: Any) -> int:
    """CRC-32 of a row's other columns in their order; numbers, token ids, frames. It begins with the response's id, so
    that another log's bytes are noticed as well."""
    *numbers, token_ids, frames = columns
    head = ":".join(map(str, (response_id, *numbers, len(token_ids))))
    return crc32(frames, crc32(token_ids, crc32(head.encode())))
