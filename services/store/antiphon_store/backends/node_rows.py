"""A row of the node table as a record: the same on every SQL engine. Bytes are checked here on their way out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Record, Status
from antiphon_core.telemetry import remedies
from antiphon_store.backends import packing
from antiphon_store.backends.places import depth_of

log = logging.getLogger(__name__)

Row = Sequence[Any]

_STATUSES = {status.value: status for status in Status}


def to_record(row: Row) -> Record:
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


def require_intact(record_id: str, written: int, found: int) -> None:
    """InternalError when the checksum of what was found is not the one that was written with it."""
    if written != found:
        log.error("the stored bytes of %s are damaged: their checksum differs", record_id, extra=remedies.RESTORE_DATA)
        raise InternalError(f"The stored bytes of '{record_id}' are damaged.", id=record_id)
