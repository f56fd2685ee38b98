"""What a file holds: implements `rows.maintenance.Maintenance`. Backups: backups.py."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.sqlite import backups
from antiphon_store.backends.sqlite.connection import statements
from antiphon_store.rows.maintenance import IndexKey, Name, Progress
from antiphon_store.rows.model import Index, Kind, Partition, Ref

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "maintenance.sql")

LINES = 500  # at a time
BEHIND_ALL = "\U0010ffff"

Run = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]


class SqliteMaintenance:
    """`read` and `write` run a function in a transaction of the backend's."""

    def __init__(self, path: Path, read: Run, write: Run) -> None:
        self._path = path
        self._read = read
        self._write = write

    async def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        last = (tenant or "", "")
        while found := await self._found("partitions", after=last, tenants_end=tenant or BEHIND_ALL, limit=LINES):
            for each in found:
                yield Partition(*each)
            last = found[-1]

    async def names(self, partition: Partition) -> Sequence[Name]:
        found = await self._found("names", **partition._asdict())
        return [Name(Ref(Kind(kind), row_id), size) for kind, row_id, size in found]

    async def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        last: tuple[str, ...] = ("", "", "")
        while found := await self._found("index_keys", tenant=tenant, after=last, limit=LINES):
            for tree, index, key in found:
                yield IndexKey(Partition(tenant, tree), Index(index), key)
            last = found[-1]

    async def erase(self, tenant: str) -> AsyncIterator[int]:
        while trees := [each async for each in self.partitions(tenant)]:
            for partition in trees:
                yield await self._changed("erase", **partition._asdict())
        while count := await self._changed("erase_entries", tenant=tenant, limit=10 * LINES):
            yield count

    async def backup(self, file: Path, on_progress: Progress) -> None:
        await backups.backup(self._path, file, on_progress)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        await backups.restore(file, self._path, on_progress)

    async def _found(self, name: str, *, after: Sequence[str] = (), **values: Any) -> list[Any]:
        for number, value in enumerate(after):
            values[f"after_{number}"] = value
        found: list[Any] = await self._read(lambda connection: connection.execute(QUERIES[name], values).fetchall())
        return found

    async def _changed(self, name: str, **values: Any) -> int:
        """How many lines the statements took away. Their bytes are overwritten."""

        def change(connection: sqlite3.Connection) -> int:
            connection.execute("PRAGMA secure_delete = ON")
            count = sum(connection.execute(each, values).rowcount for each in statements(QUERIES[name]))
            connection.execute("PRAGMA secure_delete = OFF")
            return count

        count: int = await self._write(change)
        return count
