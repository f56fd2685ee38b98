"""A turn that was accepted: what to generate, and what its record will hold beside the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TypeVar

from antiphon_core.jsons import join_arrays
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Lease, Precondition, Record, Status
from antiphon_core.ports.translator import Final, Turn
from antiphon_core.telemetry.correlation import Correlation
from antiphon_edge.turns.job_lease import JobLease

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
    """The lease of its session. A turn that waits for a worker knows its session and has a lease without a fence."""
    key: str | None = None
    """The idempotency key."""
    fingerprint: bytes = b""
    """A hash of the request, which tells two requests under one key apart."""
    logged: bool = False
    """Whether its events are written to the store's event log."""
    precondition: Precondition = NO_PRECONDITION
    """Conditions that must still hold when its record is written."""
    job_lease: JobLease | None = field(default=None, compare=False)
    """The lease of its job, where a job belongs to it and can be claimed again."""
    model: str = field(default="", compare=False)
    """The name that the request gives the model."""
    made_for: Correlation = field(default=Correlation(), compare=False)
    """The request that asked for it."""
    accepted_at_ms: int = field(default=0, compare=False)
    """When it was asked for, by the wall clock; 0 if that is not known."""
    started_s: float = field(default_factory=perf_counter, compare=False)
    """When this process began with it, by `time.perf_counter`."""

    @property
    def response_id(self) -> str:
        return self.turn.response_id

    @property
    def fence(self) -> Fence | None:
        """The fence of its session's lease, if it holds that lease."""
        return self.lease.fence if self.lease is not None and self.lease.fence.token else None

    async def under_fence(self, write: Callable[[Fence | None], Awaitable[T]]) -> T:
        """The result of `write` under the fence of this turn's job, if it has one."""
        if self.job_lease is not None:
            return await self.job_lease.proven(write)
        return await write(self.precondition.fence)

    def record(self, status: Status, body: bytes, output_items: bytes) -> Record:
        """The record of this turn in some state."""
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
        """The record of this turn at its end."""
        return self.record(final.status, final.body, final.output_items)


@dataclass(frozen=True, slots=True)
class RepeatedRequest:
    """A request whose idempotency key was used before, by the response `response_id`."""

    tenant: str
    response_id: str
    record: Record | None = None
    """The response, if it has ended."""
    key: str | None = None
    fingerprint: bytes = b""
