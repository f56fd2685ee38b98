"""Rows of the node table: found by id, read as records, written. Tables and columns: migrations/*.sql.

Functions here are parts of atoms: they run inside the transaction of their caller.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import Any

from antiphon_core.ports.store import Record
from antiphon_store.backends import admission, node_rows, packing
from antiphon_store.backends.sqlite.queries import QUERIES

log = logging.getLogger(__name__)

_FIND = QUERIES["find_node"]
_READ = QUERIES["read_node"]
_COUNT_IN_SESSION = QUERIES["count_in_session"]
_INSERT = QUERIES["insert_node"]
_OVERWRITE = QUERIES["overwrite_node"]
_MARK_DELETED = QUERIES["mark_deleted"]


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
    return node_rows.to_record(row) if row else None


def count_in_session(connection: sqlite3.Connection, tenant: str, session_id: str, now_ms: int, *, most: int) -> int:
    """How many readable responses a session has made; `most` stands for more than that as well."""
    parameters = {"tenant": tenant, "session_id": session_id, "now_ms": now_ms, "most": most}
    (count,) = connection.execute(_COUNT_IN_SESSION, parameters).fetchone()
    return int(count)


def insert(connection: sqlite3.Connection, tenant: str, place: int, record: Record) -> None:
    connection.execute(_INSERT, {"tenant": tenant, "place": place, **_columns(record)})


def overwrite(connection: sqlite3.Connection, tenant: str, record: Record) -> None:
    """Replaces everything of a stored response but its place and its parent."""
    connection.execute(_OVERWRITE, {"tenant": tenant, **_columns(record)})


def mark_deleted(connection: sqlite3.Connection, place: int) -> None:
    connection.execute(_MARK_DELETED, {"place": place})


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
