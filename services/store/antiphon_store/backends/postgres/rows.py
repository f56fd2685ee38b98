"""Rows of the database as values, and values as parameters. Bytes are checked here on their way out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from antiphon_core.ports.store import Fence, History, Lease, Precondition, Record, Session, Status
from antiphon_store.backends import packing
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.node_rows import Row, require_intact, to_record

log = logging.getLogger(__name__)

Parameters = Mapping[str, object]


def chain_of(rows: Sequence[Row], bounds: ChainBounds) -> list[Record]:
    """The rows of `chain`, root first; empty when there are none. ChainTooLong."""
    if rows:
        _require_bounds(rows[0], bounds)
    return sorted((to_record(row[2:]) for row in rows), key=lambda record: record.depth)


def history_of(rows: Sequence[Row], bounds: ChainBounds) -> History | None:
    """The rows of `history`; None when there are none. ChainTooLong."""
    if not rows:
        return None
    _require_bounds(rows[0], bounds)
    turns = []
    for _depth, _bytes, place, response_id, items_crc, input_bytes, items in rows:
        require_intact(response_id, items_crc, packing.checksum(response_id, input_bytes, items))
        turns.append((place, items))
    turns.sort()  # by place, which puts the root first
    joined = packing.join([items for _place, items in turns])
    return History(items=joined, depth=len(turns), head_id=bounds.response_id)


def session_of(row: Row, session_id: str) -> Session:
    """A row of `describe_session`."""
    head_id, last_fence, is_held, holder, expires_at_ms = row
    lease = lease_of(Fence(session_id, last_fence), holder, expires_at_ms) if is_held else None
    return Session(id=session_id, head_id=head_id, last_fence=last_fence, lease=lease)


def lease_of(fence: Fence, holder: bytes, expires_at_ms: int) -> Lease:
    return Lease(fence, holder.decode(), expires_at_ms)


def walk_parameters(tenant: str, bounds: ChainBounds) -> Parameters:
    """What `chain` and `history` need to know."""
    return {
        "tenant": tenant,
        "id": bounds.response_id,
        "max_depth": bounds.max_depth,
        "max_bytes": bounds.max_bytes,
    }


def write_parameters(write: Write) -> dict[str, object]:
    """What `write` needs to know of a record, its conditions and limits."""
    return {
        **draft_parameters(write),
        "session_most": write.session_responses_max,
        **precondition_parameters(write.precondition),
    }


def draft_parameters(write: Write) -> dict[str, object]:
    """The members of a draft_v1."""
    record = write.record
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    return {
        "id": record.id,
        "parent_id": record.parent_id,
        "session_id": record.session_id,
        "status": record.status.value,
        "items_crc": packing.checksum(record.id, input_bytes, items),
        "body_crc": packing.body_checksum(record.id, record.body),
        "input_bytes": input_bytes,
        "items": items,
        "body": record.body,
        "ttl_ms": write.ttl_ms,
    }


def precondition_parameters(condition: Precondition) -> dict[str, object]:
    return {
        "expected_version": condition.version,
        "statuses": _values(condition.statuses),
        "unless_statuses": _values(condition.unless_statuses),
        **fence_parameters(condition.fence),
    }


def fence_parameters(fence: Fence | None) -> dict[str, object]:
    return {
        "fence_session": fence.session_id if fence else None,
        "fence_token": fence.token if fence else None,
    }


def _values(statuses: Iterable[Status]) -> list[str]:
    return sorted(status.value for status in statuses)


def _require_bounds(row: Row, bounds: ChainBounds) -> None:
    depth, size_bytes = row[:2]
    bounds.require_depth(depth)
    bounds.require_bytes(size_bytes)
