"""What a status allows, and moving a record to another one, apart from any engine."""

from __future__ import annotations

from dataclasses import replace

from antiphon_core.errors import PreviousResponseNotReady
from antiphon_core.ports.store import UNFINISHED, Precondition, Record, Status


def is_changed(existing: Record, status: Status, condition: Precondition) -> bool:
    """Whether the change has been made: the record has the status, at the version that the change would have made."""
    return existing.status is status and (condition.version is None or 0 < condition.version == existing.version - 1)


def changed(existing: Record, status: Status, now_ms: int) -> Record:
    """The record with its new status. Its lifetime is not touched."""
    return replace(existing, status=status, version=existing.version + 1, updated_at_ms=now_ms)


def require_ended(response_id: str, status: Status, *, field: str = "previous_response_id") -> None:
    """That a turn can continue a response: nothing more will be said in it. PreviousResponseNotReady, naming `field`
    as what asked for it."""
    if status in UNFINISHED:
        raise PreviousResponseNotReady.of(response_id, status=status.value, field=field)
