"""What a write came to, in the database's words and in ours: rows of the type write_outcome_v1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    IdempotencyMismatch,
    InvalidRequest,
    LimitExceeded,
    LogClosed,
    PositionMismatch,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Stamp
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import require_room
from antiphon_store.backends.places import depth_of

STORED = "stored"
AGAIN = "again"  # the write needs its trees for itself


@dataclass(frozen=True, slots=True)
class Asked:
    """What a write or a removal was about: the facts that a refusal names."""

    response_id: str
    condition: Precondition = NO_PRECONDITION
    parent_id: str | None = None
    turn: Fence | None = None
    log_position: int | None = None
    session_id: str | None = None
    session_most: int | None = None
    key: str | None = None

    @classmethod
    def of(cls, write: Write, *, turn: Fence | None = None, key: str | None = None) -> Asked:
        return cls(
            write.record.id,
            write.precondition,
            parent_id=write.record.parent_id,
            turn=turn,
            log_position=write.log_end.append.expected_position if write.log_end else None,
            session_id=write.record.session_id,
            session_most=write.session_responses_max,
            key=key,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of `write`, `remove` or `change_status`. `actual` is the fact of a refusal."""

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

    def stamp(self, asked: Asked) -> Stamp:
        """The stamp of what is stored; raises the refusal."""
        if self.name != STORED:
            if self.name not in _REFUSALS:
                raise AssertionError(f"The database gave an outcome that is none: {self.name}.")
            raise _REFUSALS[self.name](asked, self.actual or "")
        return Stamp(
            version=self.version,
            depth=depth_of(self.place),
            created_at_ms=self.created_at_ms,
            updated_at_ms=self.updated_at_ms,
            expires_at_ms=self.expires_at_ms,
        )


def _stale(fence: Fence | None) -> AntiphonError:
    assert fence is not None  # noqa: S101 - without a fence the database refuses none
    return StaleFence.of(fence.session_id, token=fence.token)


def _other_parent(asked: Asked, _actual: str) -> AntiphonError:
    return InvalidRequest(
        f"'{asked.response_id}' continues another response; the parent of a stored response cannot change.",
        field="record.parent_id",
    )


def _full(asked: Asked, actual: str) -> AntiphonError:
    try:
        require_room(asked.session_id or "", int(actual), asked.session_most or 0)
    except LimitExceeded as error:
        return error
    raise AssertionError(f"The database counts {actual} responses as too many for {asked.session_most}.")


_REFUSALS: dict[str, Callable[[Asked, str], AntiphonError]] = {
    "exists": lambda asked, _: AlreadyExists.of(asked.response_id),
    "missing": lambda asked, _: ResponseNotFound.of(asked.response_id),
    "no_parent": lambda asked, _: ResponseNotFound.of(asked.parent_id or ""),
    "stale_turn": lambda asked, _: _stale(asked.turn),
    "stale_fence": lambda asked, _: _stale(asked.condition.fence),
    "other_version": lambda asked, actual: VersionMismatch.of(
        asked.response_id, expected=asked.condition.version or 0, actual=int(actual)
    ),
    "other_status": lambda asked, actual: StatusMismatch.of(asked.response_id, actual=actual),
    "other_parent": _other_parent,
    "too_deep": lambda _, actual: LimitExceeded(f"A chain of {actual} responses cannot be continued."),
    "full": _full,
    "log_closed": lambda asked, _: LogClosed.of(asked.response_id),
    "other_position": lambda asked, actual: PositionMismatch.of(
        asked.response_id, expected=asked.log_position or 0, actual=int(actual)
    ),
    "other_key": lambda asked, _: IdempotencyMismatch.of(asked.key or ""),
}
