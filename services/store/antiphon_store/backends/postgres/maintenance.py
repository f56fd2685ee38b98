"""What a database holds: implements `rows.maintenance.Maintenance`. Backups: backups.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.postgres import backups
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.plain_text import original
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.rows.maintenance import IndexKey, Name, Progress
from antiphon_store.rows.model import Index, Kind, Partition, Ref

QUERIES = named_queries.load("antiphon_store.backends.postgres", "maintenance.sql")

LINES = 500  # at a time
BEHIND_ALL = "\U0010ffff"


class PostgresMaintenance:
    """Each question is one statement, or several short ones."""

    def __init__(self, conninfo: str, schema: str, connections: Connections) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._connections = connections

    async def partitions(self, tenant: str | None = None) -> AsyncIterator[Partition]:
        last = (tenant or "", "")
        while found := await self._found("partitions", after=last, tenants_end=tenant or BEHIND_ALL, limit=LINES):
            for each in found:
                yield Partition(*each)
            last = found[-1]

    async def names(self, partition: Partition) -> Sequence[Name]:
        found = await self._found("names", **partition._asdict())
        return [Name(Ref(Kind(kind), original(row_id)), size) for kind, row_id, size in found]

    async def index_keys(self, tenant: str) -> AsyncIterator[IndexKey]:
        last: tuple[str, ...] = ("", "", "")
        while found := await self._found("index_keys", tenant=tenant, after=last, limit=LINES):
            for tree, index, key in found:
                yield IndexKey(Partition(tenant, tree), Index(index), original(key))
            last = found[-1]

    async def erase(self, tenant: str) -> AsyncIterator[int]:
        while trees := [each async for each in self.partitions(tenant)]:
            for partition in trees:
                yield await self._count("erase", **partition._asdict())
        while count := await self._count("erase_entries", tenant=tenant, limit=10 * LINES):
            yield count

    async def backup(self, file: Path, on_progress: Progress) -> None:
        await backups.backup(self._conninfo, self._schema, file, on_progress)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        await backups.restore(self._conninfo, self._schema, file, on_progress)

    async def _count(self, name: str, **values: Any) -> int:
        ((count,),) = await self._found(name, **values)
        return int(count)

    async def _found(self, name: str, *, after: Sequence[str] = (), **values: Any) -> list[Any]:
        values |= {f"after_{number}": value for number, value in enumerate(after)}

        async def atom(connection: Connection) -> list[Any]:
            return await (await connection.execute(QUERIES[name], values)).fetchall()

        return await self._connections.run(atom)
