"""The `RowBackend` protocol: the primitives that each database implements.

Rules that hold for every primitive:

    Indivisible     It happens entirely or not at all, and no other sees it half done.
    Durable         What changes something returns after it is safe at the backend's `durability`, never before.
    Time            Each backend has one clock, and tells it with every answer.
    Errors          Only classes of `antiphon_core.errors` leave a primitive: StoreUnavailable when trying again may
                    help, InternalError when it will not.

Nothing here knows what a turn, a lease or a job is: that is decided in `antiphon_store.decisions`, once for all
backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from antiphon_store.rows.model import Entry, Index, Outcome, Partition, Program


class Durability(StrEnum):
    """The faults that an acknowledged write survives."""

    MEMORY = "memory"  # nothing: it is gone with the process
    PROCESS = "process"  # the death of the process, not that of the machine
    DISK = "disk"  # power loss
    QUORUM = "quorum"  # the loss of one machine


class RowBackend(Protocol):
    """One database. `open` comes first and `close` last; in between primitives may run concurrently."""

    @property
    def durability(self) -> Durability: ...

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: with what is wrong, for an operator."""

    async def close(self) -> None:
        """Lets running primitives end. Every one after it raises StoreUnavailable; a second close does nothing."""

    async def ready(self) -> None:
        """Returns when primitives would succeed now; raises StoreUnavailable with the reason otherwise."""

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        """Applies a program, or changes nothing and says why. See `rows.model`."""

    async def page(
        self,
        partition: Partition,
        index: Index,
        key: str,
        *,
        after: tuple[int, str] | None,
        limit: int,
        descending: bool = False,
        with_rows: bool = False,
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and entries of an index behind (`at`, `id`) in either direction. `with_rows`: with the nodes that
        they name and all their payloads, for an index of the partition; entries of missing nodes have None."""

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int, levels: int | None = None
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and nodes with what is below them along CHILDREN, so many levels deep (None: all), without
        payloads and in no order; `at` is 0. Beyond `max_nodes` they are cut off: the caller asks for one more than it
        takes."""

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        """Entries of a tenant-wide index whose time has come, by `at`. In the same step each is moved to `hide_ms` from
        now, so that others take other ones meanwhile."""

    async def tenants(self) -> Sequence[str]:
        """Every tenant with something in ENDS, each once; it need not be of one moment."""
