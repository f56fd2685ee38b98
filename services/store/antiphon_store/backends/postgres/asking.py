"""What the topics of the backend share: a statement by its name, on a connection of the pool, at the store's time."""

from __future__ import annotations

from antiphon_core.clock import Clock
from antiphon_store.backends.node_rows import Row
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.rows import Parameters
from antiphon_store.backends.postgres.server import Connection


class Asking:
    """Of a backend, the part that asks. `clock` takes the place of the server's own in tests."""

    def __init__(self, connections: Connections, clock: Clock | None) -> None:
        self._connections = connections
        self._clock = clock

    async def _run(self, name: str, parameters: Parameters, *, timeout_s: float | None = None) -> list[Row]:
        """The rows of an atom that is this one statement."""
        return await self._connections.run(
            lambda connection: self._ask(connection, name, parameters), timeout_s=timeout_s
        )

    async def _ask(self, connection: Connection, name: str, parameters: Parameters) -> list[Row]:
        """The rows of a statement that is part of an atom."""
        now_ms = self._clock.now_ms() if self._clock else None
        cursor = await connection.execute(QUERIES[name], {"now_ms": now_ms, **parameters}, binary=True)
        return list(await cursor.fetchall())
