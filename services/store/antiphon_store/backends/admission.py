"""What a write may do, given what is stored: the rules of `put` and `remove`, apart from any engine.

Three cases, in this order:

    replay    The store holds this very content already, at the version that this write would have made. Somebody
              asks again after an answer got lost: nothing changes, and the existing stamp is the answer.
    replace   The record is readable and the precondition names what it must be (version, statuses).
    insert    There is no such readable record, and the precondition does not say that there is.
"""

from __future__ import annotations

from dataclasses import replace

from antiphon_core.errors import AlreadyExists, InvalidRequest, StatusMismatch, VersionMismatch
from antiphon_core.ports.store import Precondition, Record, Stamp
from antiphon_store.backends.base import Write

ABSENT = "absent"  # what StatusMismatch calls the status of a record that is not there


def is_replay(existing: Record | None, write: Write) -> bool:
    """Whether `write` asks for what has been done. `existing` is the readable record of that id."""
    if existing is None or not _same_content(existing, write.record):
        return False
    return write.precondition.version in (None, existing.version - 1)


def require_admission(existing: Record | None, write: Write) -> None:
    """Refuses what may neither insert nor replace. Fences are checked before; see `leases.require`."""
    record, condition = write.record, write.precondition
    if existing is None:
        _require_absence(record.id, condition)
        return
    if not condition.version and not condition.statuses and not condition.unless_statuses:
        raise AlreadyExists.of(record.id)
    require_precondition(existing, condition)
    if record.parent_id != existing.parent_id:
        raise InvalidRequest(
            f"'{record.id}' continues another response; the parent of a stored response cannot change.",
            field="record.parent_id",
        )


def require_precondition(existing: Record, condition: Precondition) -> None:
    """Version and statuses of a readable record."""
    if condition.version is not None and condition.version != existing.version:
        raise VersionMismatch.of(existing.id, expected=condition.version, actual=existing.version)
    if condition.statuses and existing.status not in condition.statuses:
        raise StatusMismatch.of(existing.id, actual=existing.status)
    if existing.status in condition.unless_statuses:
        raise StatusMismatch.of(existing.id, actual=existing.status)


def is_expired(expires_at_ms: int | None, now_ms: int) -> bool:
    return expires_at_ms is not None and expires_at_ms <= now_ms


def stamped(existing: Record | None, write: Write, *, depth: int, now_ms: int) -> Record:
    """The record as it will be stored. `depth` is that of a new record; a replaced one keeps its own."""
    return replace(
        write.record,
        version=existing.version + 1 if existing else 1,
        depth=existing.depth if existing else depth,
        created_at_ms=existing.created_at_ms if existing else now_ms,
        updated_at_ms=now_ms,
        expires_at_ms=now_ms + write.ttl_ms if write.ttl_ms is not None else None,
    )


def stamp_of(record: Record) -> Stamp:
    return Stamp(
        version=record.version,
        depth=record.depth,
        created_at_ms=record.created_at_ms,
        updated_at_ms=record.updated_at_ms,
        expires_at_ms=record.expires_at_ms,
    )


def _require_absence(record_id: str, condition: Precondition) -> None:
    if condition.version:
        raise VersionMismatch.of(record_id, expected=condition.version, actual=0)
    if condition.statuses or condition.unless_statuses:
        raise StatusMismatch.of(record_id, actual=ABSENT)


def _same_content(stored: Record, given: Record) -> bool:
    return (
        stored.body == given.body
        and stored.input_items == given.input_items
        and stored.output_items == given.output_items
        and stored.status is given.status
        and stored.parent_id == given.parent_id
        and stored.session_id == given.session_id
    )
