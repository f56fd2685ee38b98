"""The `Maintenance` protocol: how an operator's commands find what a database holds.

It lists names only: the commands read rows with `RowBackend.transact` and entries with `RowBackend.page`. A backend
has it as its attribute `maintenance`. If the database can be copied as a whole while it is in use, the attribute is
also a `BackupMaintenance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
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


@runtime_checkable
class BackupMaintenance(Protocol):
    """Copies a database into a file, and back. The backend need not be open."""

    async def backup(self, file: Path, on_progress: Progress) -> None:
        """Writes a snapshot of everything that was committed before the call, while clients read and write. Raises
        OSError, OperationError, StoreUnavailable."""

    async def restore(self, file: Path, on_progress: Progress) -> None:
        """Fills an empty database. OperationError: the database is not empty, or the file is not a backup of this kind.
        Raises OSError and StoreUnavailable, too."""
