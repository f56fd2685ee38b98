"""The `Maintenance` protocol: how an operator's commands find what a database holds.

It lists names only: the commands read rows with `RowBackend.transact` and entries with `RowBackend.page`. A backend
has it as its attribute `maintenance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from antiphon_store.rows.model import Index, Partition, Ref

Progress = Callable[[int], object]
"""Called with the number of rows, pages or blocks that were done since the last call."""


class Name(NamedTuple):
    """A stored row, and the bytes of its fields and payloads."""

    ref: Ref
    size: int


class IndexKey(NamedTuple):
    """A key of an index that has entries. The tree of a tenant-wide index is ''."""

    partition: Partition
    of: Index
    key: str


class Maintenance(Protocol):
    """Lists the rows of one database for operators. The backend must be open."""

    def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        """Every partition with rows, each once, of one tenant or of all. Partitions made meanwhile may be missing."""

    async def names(self, partition: Partition) -> Sequence[Name]:
        """The rows of a partition. Rows that are written meanwhile may be missing."""

    def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        """The keys under which the tenant's indexes have entries, each once."""

    def erase(self, tenant: str) -> AsyncIterator[int]:
        """Deletes all data of the tenant, and yields the number of rows, entries or keys that each step deleted. The
        tenant must have no writers meanwhile: a step may delete one of its trees, or only a part of one."""


@runtime_checkable
class MaintainedRows(Protocol):
    """A row backend with maintenance."""

    @property
    def maintenance(self) -> Maintenance: ...
