"""The store as its callers see it. Meaning, limits and errors of each operation: protos/antiphon/store/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from antiphon_core import limits


class Status(StrEnum):
    """The life of a response, as the Responses API names it."""

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
    """One stored response. `version` and what follows is the store's to set; writers leave it alone.

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
    """The store's own facts about a record, decided while writing it. `depth` is its number of ancestors."""

    version: int
    depth: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of a lease. Tokens of one session strictly increase, starting at 1."""

    session_id: str
    token: int


@dataclass(frozen=True, slots=True)
class Precondition:
    """Conditions that must hold in the same transaction as a write. `version` 0 means that the record must not exist
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
    """`head_id` is the last response committed in it; `last_fence` the last token granted (0: none)."""

    id: str
    head_id: str | None
    last_fence: int
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class ItemPage:
    """`items` is a JSON array."""

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
    """How a turn begins: after a response that has ended, in a session, or from nothing.

    To an `idempotency_key` (up to IDEMPOTENCY_KEY_BYTES_MAX) belong the `fingerprint` of the request (SHA-256) and the
    `response_id` that the turn will commit. IdempotencyMismatch: the key is another request's."""

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
    """The start of a turn. With `replay` or `running_response_id` there is nothing to run and no lease: the request of
    the idempotency key has this result, or runs elsewhere as this response."""

    history: History
    lease: Lease | None = None
    replay: Record | None = None
    running_response_id: str | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last frames of the response's event log, each closed by a blank line; the first has number
    `expected_position`. Of a turn that a job will run, the first frames."""

    expected_position: int
    frames: bytes


@dataclass(frozen=True, slots=True)
class TurnJob:
    """The job of a turn that a worker will run, in the queue of background responses of its tenant.
    `lease_ttl_ms`: how long from now the session's lease lives, if the precondition brings its fence."""

    payload: bytes
    max_attempts: int
    lease_ttl_ms: int


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """How a turn ends. `ttl_ms` is the record's lifetime from now; None means the store's default. `precondition` lets
    it complete a record that is there already, and may bring the fence of a job besides the session's. `log_end` closes
    the response's event log in the same step. With a `job` the turn has not run yet: record, job and the first events
    of its log are one step."""

    record: Record
    fence: Fence | None = None
    ttl_ms: int | None = None
    idempotency_key: str | None = None
    precondition: Precondition = NO_PRECONDITION
    log_end: LogEnd | None = None
    job: TurnJob | None = None


class ResponseStore(Protocol):
    """The ResponseStore. Every call belongs to one tenant; another tenant's ids do not exist for it."""

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
        """Returns when the store can serve; raises StoreUnavailable with the reason when it cannot."""
