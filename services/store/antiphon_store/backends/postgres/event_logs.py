"""The atoms of `roles.event_logs`, each one statement. The steps of a log: append_events_v2, as in `log_states`."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

from antiphon_core.errors import InternalError, LogClosed, LogNotFound, PositionMismatch, StaleFence
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.backends.node_rows import Row, require_intact
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.rows import fence_parameters
from antiphon_store.backends.roles.event_logs import LogPage

NO_BATCH: dict[str, object] = dict.fromkeys(
    ("first_sequence", "count", "terminal", "crc", "checkpoint_offset", "token_ids", "frames", "log_ttl_ms")
)


class PostgresEventLogs(Asking):
    """Implements `roles.event_logs.EventLogAtoms`."""

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        parameters = {
            "tenant": tenant,
            "response_id": append.response_id,
            **batch_parameters(append, ttl_ms),
            **fence_parameters(fence),
        }
        ((outcome, position),) = await self._run("append_events", parameters)
        match outcome:
            case "stored":
                return int(position)
            case "stale_fence" if fence is not None:
                raise StaleFence.of(fence.session_id, token=fence.token)
            case "closed":
                raise LogClosed.of(append.response_id)
            case "other_position":
                raise PositionMismatch.of(append.response_id, expected=append.expected_position, actual=position)
        raise InternalError(f"The database gave an outcome that is none: {outcome}.")

    async def read_log(self, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        parameters = {"tenant": tenant, "response_id": response_id, "position": position, "max_bytes": max_bytes}
        found = await self._run("read_log", parameters)
        if not found:
            raise LogNotFound.of(response_id)
        next_position, closed = found[0][:2]
        batches = tuple(_batch_of(response_id, row[2:]) for row in found if row[2] is not None)
        return LogPage(batches, next_position, closed)


def batch_parameters(append: EventAppend, ttl_ms: int) -> dict[str, object]:
    """The members of a log_batch_v1. `ttl_ms` is how long the log is kept from now."""
    checkpoint = append.checkpoint
    columns: dict[str, Any] = {
        "first_sequence": append.expected_position,
        "count": append.count,
        "terminal": append.terminal,
        "checkpoint_offset": None if checkpoint is None else checkpoint.offset,
        "token_ids": b"" if checkpoint is None else _pack(checkpoint.token_ids),
        "frames": append.frames,
    }
    return {**columns, "crc": _checksum(append.response_id, *columns.values()), "log_ttl_ms": ttl_ms}


def _batch_of(response_id: str, row: Row) -> EventBatch:
    first_sequence, count, terminal, crc, offset, token_ids, frames = row
    found = _checksum(response_id, first_sequence, count, terminal, offset, token_ids, frames)
    require_intact(response_id, crc, found)
    checkpoints = () if offset is None else (Checkpoint(offset, _unpack(token_ids)),)
    return EventBatch(first_sequence, count, frames, terminal, checkpoints)


def _pack(token_ids: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(token_ids)}I", *token_ids)


def _unpack(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _checksum(response_id: str, *columns: Any) -> int:
    """CRC-32 of a row's other columns in their order; numbers, token ids, frames. It begins with the response's id, so
    that another log's bytes are noticed as well."""
    *numbers, token_ids, frames = columns
    head = ":".join(map(str, (response_id, *numbers, len(token_ids))))
    return crc32(frames, crc32(token_ids, crc32(head.encode())))
