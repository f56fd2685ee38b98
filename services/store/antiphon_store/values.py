"""Values that operations take and give, beyond those of the ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Record

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last events of the record's log, and how long the log is kept from now."""

    append: EventAppend
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """The job that will run a turn, for how long it is remembered after its end, and for how long from now the lease of
    the precondition's fence lives."""

    draft: JobDraft
    retention_ms: int
    lease_ttl_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """A record to be written. `ttl_ms` is its lifetime from now; None means for ever. `item_ids` are the distinct ids
    of its items, by which they can be found. `log_end` is appended and `job` is added in the same step, unless the
    write is a repetition. `session_responses_max` bounds how many readable responses its session may have made."""

    record: Record
    precondition: Precondition = NO_PRECONDITION
    ttl_ms: int | None = None
    item_ids: tuple[str, ...] = ()
    log_end: LogEnd | None = None
    job: QueuedJob | None = None
    session_responses_max: int | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of a log, as of one moment. `batches` are those that were appended, whole and in order."""

    batches: tuple[EventBatch, ...]
    next_position: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Addition:
    """Items to be appended to a conversation. `salt` is the same exactly when the addition is; `digest` is that of the
    items as given."""

    items: bytes
    digest: str
    salt: str
    idempotency_key: str | None = None
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Founding:
    """A conversation to be made. `origin` is the digest of what was asked for, `incarnation` unlike any other."""

    metadata: bytes
    origin: str
    incarnation: str
    first: Addition | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a page ended: the place of its last response in every order that there is. It orders member by member:
    depth (where the order is by depth), then time of birth, then id. Ids are compared as ASCII."""

    depth: int
    created_at_ms: int
    id: str


@dataclass(frozen=True, slots=True)
class Slice(Generic[_Value]):
    """So many values of a longer line, and whether there are more."""

    values: Sequence[_Value]
    has_more: bool = False
