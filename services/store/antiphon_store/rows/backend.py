"""The `RowBackend` protocol: the primitives that each database implements.

Rules that hold for every primitive:

    Indivisible     It happens entirely or not at all, and no other primitive sees a part of it.
    Durable         A primitive that changes data returns after the change is safe at the backend's `durability`.
    Time            Each backend has one clock. `transact`, `page`, `children` and `subtree` return its time.
    Errors          Only classes of `antiphon_core.errors` leave a primitive: StoreUnavailable when a retry may help,
                    InternalError when it will not.

A backend knows nothing of turns, leases or jobs: `antiphon_store.decisions` has their rules, once for all backends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from antiphon_store.rows.model import Entry, Index, Outcome, Partition, Payload, Program, Span
from antiphon_store.rows.view import Decision

_Answer = TypeVar("_Answer")


class Durability(StrEnum):
    """The faults that an acknowledged write survives."""

    MEMORY = "memory"  # none: the data is lost with the process that holds it
    PROCESS = "process"  # a crash of the process, not of the machine
    DISK = "disk"  # power loss
    QUORUM = "quorum"  # the loss of one machine


class RowBackend(Protocol):
    """One database. Call `open` first and `close` last; in between primitives may run concurrently. `LocalBackend` and
    `RemoteBackend` have `decide` and `as_stored`."""

    @property
    def durability(self) -> Durability: ...

    @property
    def as_stored(self) -> RowBackend:
        """These rows with their content as it is stored, which is sealed in a store with encryption keys."""

    def digest_names(self, digest: bytes) -> Sequence[str]:
        """The keys of an index for a digest of content: the one to write first, then those of earlier encryption keys.
        Unavailable: the file of keys has been unusable for longer than the grace period."""

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: its message tells the operator what is wrong."""

    async def close(self) -> None:
        """Waits for running primitives. Later ones raise StoreUnavailable; a second close does nothing."""

    async def ready(self) -> None:
        """Returns if primitives would succeed now; raises StoreUnavailable with the reason otherwise."""

    async def decide(
        self,
        partition: Partition,
        decision: Decision[_Answer],
        *,
        only_reads: bool = False,
        payload: Payload = Payload.ALL,
    ) -> _Answer:
        """Runs a decision over the rows of a partition, applies its program and returns its result, all in one step.
        Raises what the decision raises, and then nothing has changed. `only_reads`: the decision changes nothing.
        `payload`: the payloads of rows that the decision uses. StoreUnavailable: too many writers change these rows."""

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        """Applies a program, or changes nothing and returns the reason. See `rows.model`."""

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and the entries that `span` selects. `payload`, for an index of the partition: with the nodes
        that the entries name, and their payloads if it is not NONE; the row of a missing node is None."""

    async def children(
        self, partition: Partition, parents: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and the children of nodes, without payloads: those of the first parent, then those of the next, and
        so on. Stops after `max_nodes`, so all children of the parents before the last one in the answer are there."""

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and the nodes `starts` with all nodes below them along CHILDREN, without payloads and in no order;
        their `at` is 0. Returns `max_nodes` at most: a caller that must know whether there are more asks for one more
        than it needs."""

    async def ancestors(self, partition: Partition, node_ids: Sequence[str], *, depth: int) -> Mapping[str, str]:
        """The ancestors of nodes at a depth; a node at that depth is its own. Nodes that are absent, or above that
        depth, are left out."""

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        """Takes entries of a tenant-wide index whose time has come, the earliest first. The same step moves each entry
        to `hide_ms` from now, so that concurrent callers take other entries."""

    async def tenants(self) -> Sequence[str]:
        """Every tenant with entries in ENDS, each once, and perhaps tenants that had some. Not of one moment."""
