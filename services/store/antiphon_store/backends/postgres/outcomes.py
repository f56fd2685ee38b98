"""What a write came to, in the database's words and in ours: rows of the type write_outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    InvalidRequest,
    LimitExceeded,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.store import Precondition, Record, Stamp
from antiphon_store.backends.places import depth_of

STORED = "stored"
AGAIN = "again"  # the write needs its trees for itself


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of `write` or `remove`. `actual` is the fact of a refusal."""

    name: str
    actual: str | None
    version: int
    place: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int | None

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> Outcome:
        (row,) = rows
        return cls(*row)

    def stamp(self, record: Record, condition: Precondition) -> Stamp:
        """The stamp of what is stored; raises the refusal."""
        if self.name != STORED:
            raise self._refusal(record.id, record.parent_id, condition)
        return Stamp(
            version=self.version,
            depth=depth_of(self.place),
            created_at_ms=self.created_at_ms,
            updated_at_ms=self.updated_at_ms,
            expires_at_ms=self.expires_at_ms,
        )

    def require_removed(self, response_id: str, condition: Precondition) -> None:
        """Raises the refusal."""
        if self.name != STORED:
            raise self._refusal(response_id, None, condition)

    def _refusal(self, response_id: str, parent_id: str | None, condition: Precondition) -> AntiphonError:
        match self.name:
            case "exists":
                return AlreadyExists.of(response_id)
            case "missing":
                return ResponseNotFound.of(response_id)
            case "no_parent":
                return ResponseNotFound.of(parent_id or "")
            case "stale_fence" if condition.fence is not None:
                return StaleFence.of(condition.fence.session_id, token=condition.fence.token)
            case "other_version":
                return VersionMismatch.of(response_id, expected=condition.version or 0, actual=int(self.actual or "0"))
            case "other_status":
                return StatusMismatch.of(response_id, actual=self.actual or "")
            case "other_parent":
                return InvalidRequest(
                    f"'{response_id}' continues another response; the parent of a stored response cannot change.",
                    field="record.parent_id",
                )
            case "too_deep":
                return LimitExceeded(f"A chain of {self.actual} responses cannot be continued.")
        raise AssertionError(f"The database gave an outcome that is none: {self.name}.")
