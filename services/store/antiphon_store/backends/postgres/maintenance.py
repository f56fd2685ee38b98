"""Maintenance of a PostgreSQL database: lists and erases its rows."""

from __future__ import annotations

from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.plain_text import original, plain
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.backends.sql_maintenance import SqlMaintenance

QUERIES = named_queries.load("antiphon_store.backends.postgres", "maintenance.sql")


class PostgresMaintenance(SqlMaintenance):
    """Lists and erases rows on the backend's connections."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(self._run, self._count)
        self._connections = connections

    async def _count(self, name: str, values: dict[str, Any]) -> int:
        ((count,),) = await self._run(name, values)
        return int(count)

    async def _run(self, name: str, values: dict[str, Any]) -> list[Any]:
        given = {key: plain(value) if isinstance(value, str) else value for key, value in values.items()}

        async def atom(connection: Connection) -> list[Any]:
            return await (await connection.execute(QUERIES[name], given)).fetchall()

        found = await self._connections.run(atom)
        return [tuple(original(value) if isinstance(value, str) else value for value in line) for line in found]
