"""The rows of the raw engines: exactly the columns and bytes of the store's own tables, made before the clock
starts."""

from __future__ import annotations

from typing import NamedTuple

from antiphon_core.ports.store import Record
from antiphon_store.decisions import nodes
from benchmarks.store.subjects import TENANT

LINE_PLACES = 2**24  # as in the store's tables: a position is line * 2^24 + depth


class Row(NamedTuple):
    """One response."""

    place: int
    tenant: str
    id: str
    parent_id: str | None
    session_id: str | None
    status: str
    version: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int
    items_crc: int
    body_crc: int
    input_bytes: int
    items: bytes
    body: bytes


NOW_MS = 1_800_000_000_000  # any time, of the usual number of digits


def row_of(line: int, depth: int, record: Record) -> Row:
    items, input_bytes = nodes.pack(record.input_items, record.output_items)
    items_crc = nodes.checksum(record.id, input_bytes, items)
    return Row(
        place=line * LINE_PLACES + depth,
        tenant=TENANT,
        id=record.id,
        parent_id=record.parent_id,
        session_id=record.session_id,
        status=record.status.value,
        version=1,
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
        expires_at_ms=NOW_MS,
        items_crc=items_crc,
        body_crc=nodes.body_checksum(items_crc, record.body),
        input_bytes=input_bytes,
        items=items,
        body=record.body,
    )
