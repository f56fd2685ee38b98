"""Maintenance of a database: what it holds, and copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.postgres import backups
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.plain_text import original, plain
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.backends.sql_maintenance import SqlMaintenance
from antiphon_store.rows.maintenance import Progress

QUERIES = named_queries.load("antiphon_store.backends.postgres", "maintenance.sql")


class PostgresMaintenance(SqlMaintenance):
    """Each question is one statement, or several short ones."""

    def __init__(self, conninfo: str, schema: str, connections: Connections) -> None:
        super().__init__(self._run, self._count)
        self._conninfo = conninfo
        self._schema = schema
        self._connections = connections

    async def backup(self, file: Path, on_progress: Progress) -> None:
        await backups.backup(self._conninfo, self._schema, file, on_progress)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        await backups.restore(self._conninfo, self._schema, file, on_progress)

    async def _count(self, name: str, values: dict[str, Any]) -> int:
        ((count,),) = await self._run(name, values)
        return int(count)

    async def _run(self, name: str, values: dict[str, Any]) -> list[Any]:
        given = {key: plain(value) if isinstance(value, str) else value for key, value in values.items()}

        async def atom(connection: Connection) -> list[Any]:
            return await (await connection.execute(QUERIES[name], given)).fetchall()

        found = await self._connections.run(atom)
        return [tuple(original(value) if isinstance(value, str) else value for value in line) for line in found]
