"""The promises of the store's operations: the `Backend` protocol, and one for each topic in `roles/`.

`engine.facade.RowEngine` implements them, over the rows of any database; tests wrap it. What each decides, and the rows
that it rests on, is in `decisions/`. Rules that hold for every operation:

    Whole           It happens entirely or not at all. What lies in one tree changes in one step; what points there from
                    elsewhere (keys, tickets, items by id) is written before or after, and verified at what it names.
    Durable         A write returns after it is safe at the `durability`, never before.
    Repeatable      The same write again changes nothing and gives the same answer.
    Time            Each database has one clock. It alone decides what is expired and which lease lives; reclaiming
                    space never changes an answer.
    Tenancy         A key of another tenant does not exist.
    Errors          Only classes of `antiphon_core.errors` leave an operation. The database's own are logged and
                    mapped: StoreUnavailable when trying again may help, InternalError when it will not.

Arguments were checked by the service (`antiphon_store.rules`); an operation may rely on their shape, and on item arrays
being tight: no white space around their brackets or right inside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnRequest,
    TurnStart,
)


class Durability(StrEnum):
    """What an acknowledged write survives."""

    MEMORY = "memory"  # nothing: it is gone with the process
    PROCESS = "process"  # the death of the process, not that of the machine
    DISK = "disk"  # power loss
    QUORUM = "quorum"  # the loss of one machine


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last events of the record's log, and how long the log is kept from now."""

    append: EventAppend
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """A record to be written. `ttl_ms` is its lifetime from now; None means for ever. `item_ids` are the distinct ids
    of its items, by which they can be found. `log_end` is appended in the same step, unless the
    write is a repetition. `session_responses_max` bounds how many readable responses its session may have made."""

    record: Record
    precondition: Precondition = NO_PRECONDITION
    ttl_ms: int | None = None
    item_ids: tuple[str, ...] = ()
    log_end: LogEnd | None = None
    session_responses_max: int | None = None


class Backend(Protocol):
    """`open` comes first and `close` last; in between operations may run concurrently."""

    @property
    def durability(self) -> Durability: ...

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: with what is wrong, for an operator."""

    async def close(self) -> None:
        """Lets running operations end. Every one after it raises StoreUnavailable; a second close does nothing."""

    async def ready(self) -> None:
        """Returns when operations would succeed now; raises StoreUnavailable with the reason otherwise."""

    # ---- Records ----

    async def put(self, tenant: str, write: Write) -> Stamp:
        """Inserts or replaces one record (`decisions.records`). In one step: the fence of the precondition,
        the precondition, that the parent is readable, the new place in the tree, the end of the log. The fence is a
        job's when there is a job of its `session_id`, else a session's; then the head of that session may be the
        parent even when its id was deleted.

        ResponseNotFound: the parent is not readable. AlreadyExists, VersionMismatch, StatusMismatch, StaleFence.
        PositionMismatch, LogClosed: of `log_end`. LimitExceeded: the session made as many as it may."""

    async def fetch(self, tenant: str, response_id: str) -> Record:
        """A readable record. ResponseNotFound."""

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        """Makes a readable record unreadable. A sweep takes away what nothing needs any more.

        ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        """A readable record and all its ancestors, root first, as of one moment, in one round trip.

        ResponseNotFound. ChainTooLong: more records than `max_depth` or more body and items than `max_bytes`."""

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        """Takes the lease with the next fencing token, or extends the one that `holder` has. SessionLocked."""

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        """Extends a living lease. StaleFence: it is not the session's, or not living."""

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        """Ends a living lease; False when there was none of this fence. The token stays used."""

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        """The session as it is now. Its head is the response that a turn in it would continue."""

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        """The lease of the session (when one is named) and the history, in one step: a refused history takes no
        lease. `max_bytes` bounds the length of its items. Waiting is not done here. A previous response must have
        ended; the head of a session is what the last commit made it.

        PreviousResponseNotFound, PreviousResponseNotReady, SessionLocked, ChainTooLong."""

    async def require_room(self, tenant: str, session_id: str, *, holder: str, most: int) -> None:
        """Returns if a turn of `holder` may make one more response in the session, which may have `most`: before a
        model runs. The commit decides. LimitExceeded."""

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        """`put` and, under the fence of a session: that its lease lives, the session's head, the end of the lease. All
        or nothing. The session's own head may be the parent even when its id was deleted. The precondition may bring
        another fence besides, as the holder of a job does. Errors as in `put`."""
