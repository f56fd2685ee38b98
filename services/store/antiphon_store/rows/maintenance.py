"""The `Maintenance` protocol: how an operator's commands find what a database holds.

It only names things; rows are read with `RowBackend.transact` and entries with `RowBackend.page`, as everybody reads
them. A backend offers it as its attribute `maintenance`. Where the database can be copied as a whole while it is in
use, that object is a `BackupMaintenance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from antiphon_store.rows.model import Index, Partition, Ref

Progress = Callable[[int], object]
"""Is told how much was done since the last call: rows, pages or blocks."""


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
    """The rows of one database, for operators. Its backend is open."""

    def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        """Every partition that has rows, each once: of one tenant, or of all. Later ones may come or not."""

    async def names(self, partition: Partition) -> Sequence[Name]:
        """The rows of a partition. Those that are written meanwhile may be missing."""

    def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        """The keys under which the tenant's indexes have entries, each once."""

    def erase(self, tenant: str) -> AsyncIterator[int]:
        """Takes away everything that is the tenant's, in steps: how much each took. Nobody may write for the tenant
        meanwhile: its trees go one after the other, and a database may take one of them in pieces."""


@runtime_checkable
class MaintainedRows(Protocol):
    """A row backend that operators can look after."""

    @property
    def maintenance(self) -> Maintenance: ...


@runtime_checkable
class BackupMaintenance(Protocol):
    """Copies a database into a file, and back. Its backend need not be open."""

    async def backup(self, file: Path, on_progress: Progress) -> None:
        """Writes all that was committed before the call, as of one moment, while others read and write. OSError,
        OperationError, StoreUnavailable."""

    async def restore(self, file: Path, on_progress: Progress) -> None:
        """Fills an empty database. OperationError: it is not empty, or the file is not such a backup. OSError,
        StoreUnavailable."""
