"""Rows of the node table: found by id, read as records, written. Tables and columns: migrations/*.sql.

Functions here are parts of atoms: they run inside the transaction of their caller.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Record, Status
from antiphon_store.backends import admission, packing
from antiphon_store.backends.places import depth_of
from antiphon_store.backends.sqlite.queries import QUERIES

log = logging.getLogger(__name__)

_FIND = QUERIES["find_node"]
_READ = QUERIES["read_node"]
_INSERT = QUERIES["insert_node"]
_OVERWRITE = QUERIES["overwrite_node"]
_MARK_DELETED = QUERIES["mark_deleted"]

_STATUSES = {status.value: status for status in Status}


@dataclass(frozen=True, slots=True)
class Node:
    """Where a response stands and what decides whether it can be seen; not its content."""

    place: int
    deleted: bool
    expires_at_ms: int | None

    def is_expired(self, now_ms: int) -> bool:
        return admission.is_expired(self.expires_at_ms, now_ms)

    def is_readable(self, now_ms: int) -> bool:
        return not self.deleted and not self.is_expired(now_ms)


def find(connection: sqlite3.Connection, tenant: str, response_id: str) -> Node | None:
    """A response that is stored, readable or not."""
    row = connection.execute(_FIND, {"tenant": tenant, "id": response_id}).fetchone()
    return Node(row[0], bool(row[1]), row[2]) if row else None


def read(connection: sqlite3.Connection, tenant: str, response_id: str, now_ms: int) -> Record | None:
    """The record of a readable response."""
    row = connection.execute(_READ, {"tenant": tenant, "id": response_id, "now_ms": now_ms}).fetchone()
    return to_record(row) if row else None


def insert(connection: sqlite3.Connection, tenant: str, place: int, record: Record) -> None:
    connection.execute(_INSERT, {"tenant": tenant, "place": place, **_columns(record)})


def overwrite(connection: sqlite3.Connection, tenant: str, record: Record) -> None:
    """Replaces everything of a stored response but its place and its parent."""
    connection.execute(_OVERWRITE, {"tenant": tenant, **_columns(record)})


def mark_deleted(connection: sqlite3.Connection, place: int) -> None:
    connection.execute(_MARK_DELETED, {"place": place})


def to_record(row: Sequence[Any]) -> Record:
    """A row that begins with the columns of `read_node`. InternalError: its bytes are not those that were written."""
    response_id, parent_id, session_id, status, version, place, created_at_ms, updated_at_ms, expires_at_ms = row[:9]
    items_crc, body_crc, input_bytes, items, body = row[9:14]
    require_intact(response_id, items_crc, packing.checksum(response_id, input_bytes, items))
    require_intact(response_id, body_crc, packing.body_checksum(response_id, body))
    input_items, output_items = packing.unpack(items, input_bytes)
    return Record(
        id=response_id,
        status=_STATUSES[status],
        body=body,
        input_items=input_items,
        output_items=output_items,
        parent_id=parent_id,
        session_id=session_id,
        version=version,
        depth=depth_of(place),
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        expires_at_ms=expires_at_ms,
    )


def require_intact(response_id: str, written: int, found: int) -> None:
    """InternalError when the checksum of what was found is not the one that was written with it."""
    if written != found:
        log.error("the stored bytes of %s are damaged: their checksum differs", response_id)
        raise InternalError(f"The stored bytes of '{response_id}' are damaged.", id=response_id)


def _columns(record: Record) -> dict[str, Any]:
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    return {
        "id": record.id,
        "parent_id": record.parent_id,
        "session_id": record.session_id,
        "status": record.status.value,
        "version": record.version,
        "created_at_ms": record.created_at_ms,
        "updated_at_ms": record.updated_at_ms,
        "expires_at_ms": record.expires_at_ms,
        "items_crc": packing.checksum(record.id, input_bytes, items),
        "body_crc": packing.body_checksum(record.id, record.body),
        "input_bytes": input_bytes,
        "items": items,
        "body": record.body,
    }
