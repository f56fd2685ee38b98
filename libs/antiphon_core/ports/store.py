"""The port of responses, sessions and turns. protos/antiphon/store/ documents each operation, its limits and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from antiphon_core import limits


class Status(StrEnum):
    """The status of a response, with the names of the Responses API."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = frozenset({Status.QUEUED, Status.IN_PROGRESS})
"""Statuses of responses that have not ended: such a response can be read, but not continued."""


class Order(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


@dataclass(frozen=True, slots=True)
class Record:
    """One stored response. The store sets `version` and the fields after it; writers leave them at their defaults.

    `body` is the response as a JSON object without `output`; `input_items` and `output_items` are JSON arrays of
    items, each with an `id`.
    """

    id: str
    status: Status
    body: bytes
    input_items: bytes = b"[]"
    output_items: bytes = b"[]"
    parent_id: str | None = None
    session_id: str | None = None
    version: int = 0
    depth: int = 0
    created_at_ms: int = 0
    updated_at_ms: int = 0
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """The fields of a record that the store sets when it writes the record. `depth` is the number of ancestors."""

    version: int
    depth: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """The proof of a lease, checked with each write under it. The tokens of a session increase strictly, from 1.
    Those of a conversation begin with the time of its creation in milliseconds, so that they are above the tokens of an
    earlier conversation with its id."""

    session_id: str
    token: int


@dataclass(frozen=True, slots=True)
class Precondition:
    """Conditions that are checked in the same transaction as a write. `version` 0 means that the record must not exist
    yet."""

    version: int | None = None
    statuses: frozenset[Status] = frozenset()
    unless_statuses: frozenset[Status] = frozenset()
    fence: Fence | None = None


NO_PRECONDITION = Precondition()


@dataclass(frozen=True, slots=True)
class Lease:
    fence: Fence
    holder: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `head_id` is the last committed response, `last_fence` the last token granted (0: none)."""

    id: str
    head_id: str | None
    last_fence: int
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One page of items. `items` is a JSON array."""

    items: bytes
    first_id: str | None
    last_id: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class History:
    """Everything before a turn: the items of `depth` responses, root first, as one JSON array."""

    items: bytes = b"[]"
    depth: int = 0
    head_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The beginning of a turn: after a response that has ended, in a session, or without history.

    An `idempotency_key` (up to IDEMPOTENCY_KEY_BYTES_MAX) needs the `fingerprint` of the request (SHA-256) and the
    `response_id` that the turn will commit. IdempotencyMismatch: the key was used for another request."""

    previous_response_id: str | None = None
    session_id: str | None = None
    holder: str = ""
    lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT
    wait_ms: int = 0
    max_depth: int = limits.CHAIN_DEPTH_MAX
    max_bytes: int = limits.CHAIN_BYTES_MAX
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The answer to a TurnRequest. If the idempotency key is known, there is nothing to run and no lease: `replay` is
    the result of the first request, or `running_response_id` the response that it is still generating."""

    history: History
    lease: Lease | None = None
    replay: Record | None = None
    running_response_id: str | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last frames of the response's event log, each closed by a blank line, the first with the sequence number
    `expected_position`. In a TurnCommit with a job these are the first frames of the log."""

    expected_position: int
    frames: bytes


@dataclass(frozen=True, slots=True)
class TurnJob:
    """The job of a turn that a worker will run, in the queue of background responses of its tenant.
    `lease_ttl_ms`: the new lifetime of the session's lease, if the commit's precondition has its fence."""

    payload: bytes
    max_attempts: int
    lease_ttl_ms: int


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """The writes at the end of a turn, in one transaction. `ttl_ms` is the record's lifetime from now; None is the
    store's default. `precondition` allows to complete an existing record, and may have the fence of a job besides the
    session's. `log_end` closes the response's event log. With a `job` the turn has not run yet: record, job and the
    first events of the log are written."""

    record: Record
    fence: Fence | None = None
    ttl_ms: int | None = None
    idempotency_key: str | None = None
    precondition: Precondition = NO_PRECONDITION
    log_end: LogEnd | None = None
    job: TurnJob | None = None


class ResponseStore(Protocol):
    """Operations on responses, sessions and turns. Each call is for one tenant, to which others' ids do not exist."""

    async def put(
        self,
        tenant: str,
        record: Record,
        *,
        precondition: Precondition = NO_PRECONDITION,
        ttl_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Stamp: ...

    async def get(self, tenant: str, response_id: str) -> Record: ...

    async def delete(self, tenant: str, response_id: str, *, precondition: Precondition = NO_PRECONDITION) -> None: ...

    async def list_items(
        self,
        tenant: str,
        response_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage: ...

    async def chain(
        self,
        tenant: str,
        response_id: str,
        *,
        max_depth: int = limits.CHAIN_DEPTH_MAX,
        max_bytes: int = limits.CHAIN_BYTES_MAX,
    ) -> Sequence[Record]: ...

    async def acquire_session(
        self,
        tenant: str,
        session_id: str,
        *,
        holder: str,
        ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Lease: ...

    async def renew_session(self, tenant: str, fence: Fence, *, ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT) -> Lease: ...

    async def release_session(self, tenant: str, fence: Fence) -> bool: ...

    async def describe_session(self, tenant: str, session_id: str) -> Session: ...

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart: ...

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp: ...

    async def abort_turn(
        self,
        tenant: str,
        fence: Fence | None,
        *,
        idempotency_key: str | None = None,
        response_id: str | None = None,
    ) -> None: ...

    async def ready(self) -> None:
        """Returns if the store is ready to serve. StoreUnavailable: it is not, for the reason in the message."""
