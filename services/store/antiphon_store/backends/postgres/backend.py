"""The engine: a pool of connections to one PostgreSQL database. Each atom is one statement, and one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import ResponseNotFound, SessionLocked, StaleFence, StoreUnavailable
from antiphon_core.ports.store import Fence, Lease, Precondition, Record, Session
from antiphon_store.backends import node_rows
from antiphon_store.backends.base import Durability
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.postgres import rows, schema, server
from antiphon_store.backends.postgres.connections import READY_TIMEOUT_S, Connections
from antiphon_store.backends.postgres.conversations import PostgresConversations
from antiphon_store.backends.postgres.event_logs import PostgresEventLogs
from antiphon_store.backends.postgres.jobs import PostgresJobs
from antiphon_store.backends.postgres.lineage import PostgresLineage
from antiphon_store.backends.postgres.outcomes import Asked, Outcome
from antiphon_store.backends.postgres.retention import PostgresRetention
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.backends.postgres.spending import PostgresSpending
from antiphon_store.backends.postgres.turns import PostgresTurns
from antiphon_store.backends.postgres.writes import PostgresWrites


class PostgresBackend(
    PostgresWrites,
    PostgresTurns,
    PostgresConversations,
    PostgresEventLogs,
    PostgresJobs,
    PostgresLineage,
    PostgresRetention,
    PostgresSpending,
):
    """Implements `base.Backend`. Any number of processes may share the database.

    `clock` takes the place of the server's own in tests; `migrate` lets `open` bring the schema up to date."""

    def __init__(
        self,
        url: str,
        *,
        durability: Durability = Durability.DISK,
        migrate: bool = True,
        database_schema: str = schema.SCHEMA,
        clock: Clock | None = None,
    ) -> None:
        if durability not in server.SYNCHRONOUS_COMMIT:
            raise SettingsError(f"PostgreSQL's durability is 'process', 'disk' or 'quorum', not '{durability}'.")
        self.durability = durability
        self.migrate = migrate
        self._schema = database_schema
        super().__init__(Connections(server.conninfo_of(url), configure=self._configure), clock)

    async def open(self) -> None:
        await self._connections.open(self._prepare)

    async def close(self) -> None:
        await self._connections.close()

    async def ready(self) -> None:
        ((is_read_only, _any_node),) = await self._run("ready", {}, timeout_s=READY_TIMEOUT_S)
        if is_read_only:
            raise StoreUnavailable("The store cannot be used: its database is read-only.")

    # ---- Records ----

    async def fetch(self, tenant: str, response_id: str) -> Record:
        found = await self._run("read_node", {"tenant": tenant, "id": response_id})
        if not found:
            raise ResponseNotFound.of(response_id)
        return node_rows.to_record(found[0])

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        parameters = {"tenant": tenant, "id": response_id, **rows.precondition_parameters(precondition)}
        Outcome.of(await self._run("remove", parameters)).stamp(Asked(response_id, precondition))

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        bounds = ChainBounds(response_id, max_depth, max_bytes)
        chain = rows.chain_of(await self._run("chain", rows.walk_parameters(tenant, bounds)), bounds)
        if not chain:
            raise ResponseNotFound.of(response_id)
        return chain

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        parameters = {"tenant": tenant, "session_id": session_id, "holder": holder.encode(), "ttl_ms": ttl_ms}
        for token, expires_at_ms in await self._run("acquire_lease", parameters):
            return Lease(Fence(session_id, token), holder, expires_at_ms)
        raise SessionLocked.of(session_id)

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        for holder, expires_at_ms in await self._run("renew_lease", {**_under(tenant, fence), "ttl_ms": ttl_ms}):
            return rows.lease_of(fence, holder, expires_at_ms)
        raise StaleFence.of(fence.session_id, token=fence.token)

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        return bool(await self._run("release_lease", _under(tenant, fence)))

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        for row in await self._run("describe_session", {"tenant": tenant, "session_id": session_id}):
            return rows.session_of(row, session_id)
        return Session(id=session_id, head_id=None, last_fence=0, lease=None)

    # ---- Connections ----

    async def _configure(self, connection: Connection) -> None:
        await server.configure(connection, schema=self._schema, durability=self.durability)

    async def _prepare(self, connection: Connection) -> None:
        await server.require_server(connection, self.durability)
        if self.migrate:
            await schema.migrate(connection, self._schema)
        await schema.require_current(connection, self._schema)


def _under(tenant: str, fence: Fence) -> rows.Parameters:
    return {"tenant": tenant, "session_id": fence.session_id, "token": fence.token}
