"""A turn that was accepted: what to generate, and what its record will hold beside the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from antiphon_core.jsons import join_arrays
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Lease, Precondition, Record, Status
from antiphon_core.ports.translator import Final, Turn
from antiphon_edge.turns.holds import Hold

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Begun:
    """`keep`: its record is stored. `lease` is that of its session, `key` its idempotency key, for requests with this
    `fingerprint`. With `logged` its events are written to the store as they come, for readers elsewhere. `precondition`
    is what must still hold at its end, `hold` the job whose fence that names, where it can be held on to."""

    tenant: str
    turn: Turn
    keep: bool = True
    parent_id: str | None = None
    lease: Lease | None = None
    key: str | None = None
    fingerprint: bytes = b""
    logged: bool = False
    precondition: Precondition = NO_PRECONDITION
    hold: Hold | None = field(default=None, compare=False)

    @property
    def response_id(self) -> str:
        return self.turn.response_id

    @property
    def fence(self) -> Fence | None:
        """That of its session's lease, if it has it: a turn that waits to be run only knows its session."""
        return self.lease.fence if self.lease is not None and self.lease.fence.token else None

    async def under_fence(self, write: Callable[[Fence | None], Awaitable[T]]) -> T:
        """What `write` comes to under the fence of this turn's job, if it has one."""
        if self.hold is not None:
            return await self.hold.proven(write)
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

    def as_root(self) -> Begun:
        """The same turn with nothing before it: its history is the beginning of its input."""
        whole = join_arrays([self.turn.history, self.turn.input])
        return replace(self, turn=replace(self.turn, history=b"[]", input=whole), parent_id=None)

    def ended(self, final: Final) -> Record:
        """The record of this turn at its end."""
        return self.record(final.status, final.body, final.output_items)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A request that was made before under the same idempotency key: as `response_id`, with `record` if it is done."""

    tenant: str
    response_id: str
    record: Record | None = None
    key: str | None = None
    fingerprint: bytes = b""
