"""Accepted turns: the request to the translator, and the facts that the turn's record needs besides its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TypeVar

from antiphon_core.jsons import join_arrays
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Lease, Precondition, Record, Status, TurnRequest
from antiphon_core.ports.translator import Final, Turn
from antiphon_core.telemetry.correlation import Correlation
from antiphon_edge.turns.leases import JobLease

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AcceptedTurn:
    """A request that will become a response."""

    tenant: str
    turn: Turn
    """The request to the translator."""
    keep: bool = True
    """Whether the record is stored."""
    parent_id: str | None = None
    """The response that this one continues."""
    lease: Lease | None = None
    """The lease of its session. In a turn that was decoded from a job, the lease has the token 0: it only names the
    session, which has yet to be leased."""
    key: str | None = None
    """The idempotency key."""
    fingerprint: bytes = b""
    """A hash of the request, which tells two requests under one key apart."""
    logged: bool = False
    """Whether its events are written to the store's event log."""
    precondition: Precondition = NO_PRECONDITION
    """Conditions that must still hold when its record is written."""
    job_lease: JobLease | None = field(default=None, compare=False)
    """The lease of its job, if it is a durable turn that this process runs."""
    is_from_job: bool = field(default=False, compare=False)
    """Whether it was decoded from its job: its event log tells how far it came."""
    model: str = field(default="", compare=False)
    """The model name in the request."""
    made_for: Correlation = field(default=Correlation(), compare=False)
    """The ids of the HTTP request that the turn answers."""
    accepted_at_ms: int = field(default=0, compare=False)
    """When the request was accepted, by the wall clock; 0 if unknown."""
    started_s: float = field(default_factory=perf_counter, compare=False)
    """When this process began the turn, by `time.perf_counter`."""

    @property
    def response_id(self) -> str:
        return self.turn.response_id

    @property
    def fence(self) -> Fence | None:
        """The fence of the session's lease, if the turn holds that lease."""
        return self.lease.fence if self.lease is not None and self.lease.fence.token else None

    async def under_fence(self, write: Callable[[Fence | None], Awaitable[T]]) -> T:
        """Calls `write` with the current fence of the turn's job, or with None if the turn has no job."""
        return await (write(None) if self.job_lease is None else self.job_lease.under_fence(write))

    @property
    def key_claim(self) -> TurnRequest:
        """The request that claims its key again, because the turn may take longer than a claim lasts."""
        return TurnRequest(idempotency_key=self.key, fingerprint=self.fingerprint, response_id=self.response_id)

    def record(self, status: Status, body: bytes, output_items: bytes) -> Record:
        """Builds the turn's record."""
        return Record(
            id=self.turn.response_id,
            status=status,
            body=body,
            input_items=self.turn.input,
            output_items=output_items,
            parent_id=self.parent_id,
            session_id=self.lease.fence.session_id if self.lease is not None else None,
        )

    def as_root(self) -> AcceptedTurn:
        """The turn without a parent: its history becomes the beginning of its input."""
        whole = join_arrays([self.turn.history, self.turn.input])
        return replace(self, turn=replace(self.turn, history=b"[]", input=whole), parent_id=None)

    def ended(self, final: Final) -> Record:
        """Builds the turn's record at its end."""
        return self.record(final.status, final.body, final.output_items)


@dataclass(frozen=True, slots=True)
class RepeatedRequest:
    """A request whose idempotency key was used before, by the response `response_id`."""

    tenant: str
    response_id: str
    record: Record | None = None
    """The record of that response, if it has ended."""
    key: str | None = None
    fingerprint: bytes = b""
