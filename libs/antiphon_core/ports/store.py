"""The port of responses, sessions and turns. protos/antiphon/store/ documents each operation, its limits and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ids import tree_tag
from antiphon_core.ports.checks import (
    INT64_MAX,
    ApprovalId,
    Holder,
    IdempotencyKey,
    ItemId,
    Json,
    LeaseTtlMs,
    MaxBytes,
    MaxDepth,
    PageLimit,
    ResponseId,
    SessionId,
    Tenant,
    TtlMs,
    Version,
    WaitMs,
    bytes_up_to,
    check_given,
    check_holder,
    check_in_tree,
    check_owner,
    check_range,
    count_within,
    invalid,
    part,
    too_large,
    within,
)

FINGERPRINT_BYTES = 32
FRAME_END = b"\n\n"

JobPayload = Annotated[bytes, bytes_up_to(limits.JOB_PAYLOAD_BYTES_MAX, "The payload is")]
JobAttempts = Annotated[int, within(1, limits.JOB_ATTEMPTS_ITEMS_MAX)]

ApprovalContent = Annotated[bytes, check_given, bytes_up_to(limits.APPROVAL_BYTES_MAX, "The content is")]
_APPROVALS = count_within(0, limits.APPROVALS_ITEMS_MAX)
Lineage = Annotated[bytes, bytes_up_to(limits.LINEAGE_BYTES_MAX, "The lineage is")]
LINEAGE_KEY_BYTES = 16


def _check_lineage_key(key: bytes, field: str) -> None:
    if key and len(key) != LINEAGE_KEY_BYTES:
        raise invalid(field, f"'{field}' must be {LINEAGE_KEY_BYTES} bytes.")


LineageKey = Annotated[bytes, _check_lineage_key]
"""A hash of the conversation that a lineage ends with; empty for none. It has no secret in it: a store with encryption
keys writes an HMAC of it."""


def _check_lineage_keys(keys: Sequence[bytes], field: str) -> None:
    if len(keys) > limits.LINEAGE_KEYS_ITEMS_MAX or not all(len(key) == LINEAGE_KEY_BYTES for key in keys):
        most = limits.LINEAGE_KEYS_ITEMS_MAX
        raise invalid(field, f"'{field}' must be at most {most} keys of {LINEAGE_KEY_BYTES} bytes.")


LineageKeys = Annotated[tuple[bytes, ...], _check_lineage_keys]


def _check_frames(frames: bytes, field: str) -> None:
    if not frames.endswith(FRAME_END):
        raise invalid(field, f"'{field}' must be events, each closed by a blank line.")


Frames = Annotated[bytes, bytes_up_to(limits.APPEND_BYTES_MAX, "The frames are"), _check_frames]
"""Events as they are sent, each closed by a blank line."""


def check_events(frames: bytes, count: int, expected_position: int, field: str) -> None:
    """Checks the number of events, which are counted by their blank lines: a resumed read skips events by them."""
    check_range(count, part(field, "count"), 1, limits.APPEND_EVENTS_MAX)
    check_range(expected_position, part(field, "expected_position"), 0, INT64_MAX - count)
    found = frames.count(FRAME_END)
    if found != count:
        at = part(field, "frames")
        raise invalid(at, f"'{at}' must be {count} events, each closed by a blank line, but has {found} blank lines.")


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

    id: ResponseId
    status: Status
    body: bytes
    input_items: Json = b"[]"
    output_items: Json = b"[]"
    parent_id: ResponseId | None = None
    session_id: SessionId | None = None
    version: int = 0
    depth: int = 0
    created_at_ms: int = 0
    updated_at_ms: int = 0
    expires_at_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of body and items."""
        return len(self.body) + len(self.input_items) + len(self.output_items)

    def check(self, field: str) -> None:
        """Checks the size, and that parent and session have the tree tag of the response. TooLarge."""
        if self.size_bytes > limits.RECORD_BYTES_MAX:
            raise too_large("The response is", self.size_bytes, limits.RECORD_BYTES_MAX, field)
        tag = tree_tag(self.id)
        for name, relative in (("parent_id", self.parent_id), ("session_id", self.session_id)):
            if relative is not None and tree_tag(relative) not in (None, tag):
                at = part(field, name)
                raise invalid(at, f"'{at}' belongs to another tree than 'record.id': their tags differ.")
        if self.parent_id == self.id:
            raise invalid(part(field, "parent_id"), "A response cannot continue itself.")


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
    earlier conversation with its id.

    In the fence of a job, `session_id` is the id of the job. The name is that of the public API: clients have it, and
    the paths of wrong fields (`fence.session_id`)."""

    session_id: SessionId
    token: Version


@dataclass(frozen=True, slots=True)
class Precondition:
    """Conditions that are checked in the same transaction as a write. `version` 0: the record must not exist yet.
    `statuses`: the record has one of these; `unless_statuses`: it has none of these. `fence`: its lease is live."""

    version: Annotated[int, within(0, INT64_MAX)] | None = None
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

    @property
    def next_id(self) -> str | None:
        """The id behind which the next page begins; None: there is none."""
        return self.last_id if self.has_more else None


@dataclass(frozen=True, slots=True)
class History:
    """Everything before a turn: the items of `depth` responses, root first, as one JSON array. `lineages` are those of
    the same responses, empty for one without; none if no response has one, or if they were not requested. Those behind
    the first LINEAGE_BYTES_MAX bytes of them, root first, may be empty but for the last one."""

    items: bytes = b"[]"
    depth: int = 0
    head_id: str | None = None
    lineages: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalDraft:
    """An approval that a response asks for. `content` is JSON that the store does not parse."""

    id: ApprovalId
    content: ApprovalContent


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A person's answer to an approval request."""

    id: ApprovalId
    is_approved: bool


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval as it was stored with `response_id`, the response that asks for it."""

    id: str
    response_id: str
    created_at_ms: int
    content: bytes
    is_sent: bool = False
    """Whether its call may have been sent."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The beginning of a turn: after a response that has ended, in a session, or without history.

    An `idempotency_key` (up to IDEMPOTENCY_KEY_BYTES_MAX) needs the `fingerprint` of the request (SHA-256) and the
    `response_id` that the turn will commit. IdempotencyMismatch: the key was used for another request."""

    previous_response_id: ResponseId | None = None
    session_id: SessionId | None = None
    holder: str = ""
    lease_ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT
    wait_ms: WaitMs = 0
    max_depth: MaxDepth = limits.CHAIN_DEPTH_MAX
    max_bytes: MaxBytes = limits.CHAIN_BYTES_MAX
    idempotency_key: IdempotencyKey | None = None
    fingerprint: bytes = b""
    response_id: ResponseId | None = None
    wants_lineage: bool = False
    """Whether the history comes with the lineages of its responses."""
    consumes: Annotated[Sequence[ApprovalAnswer], _APPROVALS] = ()
    """The answers to approval requests that the turn uses, each once for ever. They need the `response_id`, whose tree
    is theirs. In a turn that continues a response, or a session, its history has the requests."""
    lineage_keys: LineageKeys = ()
    """A search, which begins no turn: the keys of the lineage to look up, that of the longest beginning of an input
    first."""
    lineage_of: ResponseId | None = None
    """A read, which begins no turn: the response whose lineage is returned alone."""

    def check(self, _field: str) -> None:
        if self.previous_response_id is not None and self.session_id is not None:
            text = "'previous_response_id' and 'session_id' exclude each other."
            raise invalid("previous_response_id", text, code="mutually_exclusive_parameters")
        self._check_lineage_read()
        if self.session_id is not None:
            check_holder(self.holder, "holder")
        check_owner(self.idempotency_key, self.response_id)
        self._check_approvals()
        has_fingerprint = bool(self.fingerprint) or self.idempotency_key is not None
        if has_fingerprint and len(self.fingerprint) != FINGERPRINT_BYTES:
            raise invalid("fingerprint", f"'fingerprint' must be {FINGERPRINT_BYTES} bytes, a SHA-256.")

    def _check_lineage_read(self) -> None:
        others = self.previous_response_id, self.session_id, self.idempotency_key, self.consumes or None
        reads = {"lineage_keys": self.lineage_keys or None, "lineage_of": self.lineage_of}
        given = [name for name, value in reads.items() if value is not None]
        if given and (len(given) > 1 or any(each is not None for each in others)):
            text = f"A call with '{given[0]}' begins no turn: it has no predecessor, key, approvals or other read."
            raise invalid(given[0], text)

    def _check_approvals(self) -> None:
        ids = [each.id for each in self.consumes]
        if not ids:
            return
        if self.response_id is None:
            raise invalid("response_id", "'consumes' needs 'response_id': the response that uses the approvals.")
        if len(set(ids)) < len(ids):
            raise invalid("consumes", "'consumes' has two answers to one request.")
        check_in_tree(ids, self.response_id, "consumes")


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The answer to a TurnRequest, with the approvals that the turn took. If the idempotency key is known, there is
    nothing to run, no lease and no approval: `replay` is the result of the first request, or `running_response_id` the
    response that it is still generating."""

    history: History
    lease: Lease | None = None
    replay: Record | None = None
    running_response_id: str | None = None
    approvals: tuple[Approval, ...] = ()
    found_lineage: bytes = b""
    """The lineage under the first of the `lineage_keys` that a readable response has, or that of `lineage_of`."""

    @property
    def is_repeated(self) -> bool:
        """Whether the idempotency key is known."""
        return self.replay is not None or self.running_response_id is not None

    @property
    def earlier_id(self) -> str:
        """The response that the key of a repeated request belongs to."""
        return self.replay.id if self.replay is not None else str(self.running_response_id)


@dataclass(frozen=True, slots=True)
class LogFrames:
    """The last frames of the response's event log, each closed by a blank line, the first with the sequence number
    `expected_position`. In a TurnCommit with a job these are the first frames of the log."""

    expected_position: int
    frames: Frames

    def check(self, field: str) -> None:
        check_events(self.frames, self.frames.count(FRAME_END), self.expected_position, field)


@dataclass(frozen=True, slots=True)
class TurnJob:
    """The job of a turn that a worker will run, in the queue of background responses of its tenant.
    `lease_ttl_ms`: the new lifetime of the session's lease, if the commit's precondition has its fence."""

    payload: JobPayload
    max_attempts: JobAttempts
    lease_ttl_ms: LeaseTtlMs


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """The writes at the end of a turn, in one transaction. `ttl_ms` is the record's lifetime from now; None is the
    store's default. With a `precondition` the commit may complete an existing record; the fence in it may be that of a
    job. `fence` is that of the session. `log_frames` closes the response's event log. With a `job` the turn has not run
    yet: record, job and the first events of the log are written. `ends_job` ends the job of the precondition's fence as
    succeeded. `lineage` (`antiphon.translator.v1.Lineage`) is kept beside the record for `TurnRequest.wants_lineage`,
    and left out if the store is full. `lineage_key`: a later turn finds the lineage under this key. `approvals` are
    those that the response asks for: they can be answered from the commit on, as long as the record lasts. `holds` are
    those that a turn with a `job` took: they are held in this transaction, as by `Approvals.hold_approvals`."""

    record: Record
    fence: Fence | None = None
    ttl_ms: TtlMs | None = None
    idempotency_key: IdempotencyKey | None = None
    precondition: Precondition = NO_PRECONDITION
    log_frames: LogFrames | None = None
    job: TurnJob | None = None
    ends_job: bool = False
    lineage: Lineage = b""
    lineage_key: LineageKey = b""
    approvals: Annotated[Sequence[ApprovalDraft], _APPROVALS] = ()
    holds: Annotated[Sequence[ApprovalId], _APPROVALS] = ()

    def check(self, _field: str) -> None:
        if self.lineage_key and not self.lineage:
            raise invalid("lineage_key", "A lineage key needs a lineage.")
        if self.approvals:
            check_in_tree([each.id for each in self.approvals], self.record.id, "approvals")
        if self.holds:
            check_in_tree(self.holds, self.record.id, "holds")
            if self.job is None:
                raise invalid("holds", "Only a turn with a job holds approvals in its commit.")
        if self.fence is not None and self.fence.session_id != self.record.session_id:
            text = "A turn is committed under the fence of the session that its record names."
            raise invalid("fence.session_id", text)
        job_fence = self.precondition.fence
        if self.ends_job and (job_fence is None or job_fence.session_id != self.record.id):
            raise invalid("ends_job", "A commit ends a job only under the fence of that job, in its precondition.")
        if self.job is not None and self.record.status not in UNFINISHED:
            raise invalid("record.status", "A response with a job must not have ended.")


class ResponseStore(Protocol):
    """Operations on responses, sessions and turns. Each call is for one tenant, to which others' ids do not exist."""

    async def put(
        self,
        tenant: Tenant,
        record: Record,
        *,
        precondition: Precondition = NO_PRECONDITION,
        ttl_ms: TtlMs | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Stamp: ...

    async def get(self, tenant: Tenant, response_id: ResponseId) -> Record: ...

    async def delete(
        self, tenant: Tenant, response_id: ResponseId, *, precondition: Precondition = NO_PRECONDITION
    ) -> None: ...

    async def list_items(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        after: ItemId | None = None,
        limit: PageLimit = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage: ...

    async def chain(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        max_depth: MaxDepth = limits.CHAIN_DEPTH_MAX,
        max_bytes: MaxBytes = limits.CHAIN_BYTES_MAX,
    ) -> Sequence[Record]: ...

    async def acquire_session(
        self,
        tenant: Tenant,
        session_id: SessionId,
        *,
        holder: Holder,
        ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: WaitMs = 0,
    ) -> Lease: ...

    async def renew_session(
        self, tenant: Tenant, fence: Fence, *, ttl_ms: LeaseTtlMs = limits.LEASE_TTL_MS_DEFAULT
    ) -> Lease: ...

    async def release_session(self, tenant: Tenant, fence: Fence) -> bool: ...

    async def describe_session(self, tenant: Tenant, session_id: SessionId) -> Session: ...

    async def begin_turn(self, tenant: Tenant, request: TurnRequest) -> TurnStart: ...

    async def commit_turn(self, tenant: Tenant, commit: TurnCommit) -> Stamp: ...

    async def abort_turn(
        self,
        tenant: Tenant,
        fence: Fence | None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        response_id: ResponseId | None = None,
    ) -> None: ...

    async def ready(self) -> None:
        """Returns if the store is ready to serve. StoreUnavailable: it is not, for the reason in the message."""
