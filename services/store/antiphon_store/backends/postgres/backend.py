"""The engine: a pool of connections to one PostgreSQL database. Each atom is one statement, and one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import (
    PreviousResponseNotFound,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    StoreUnavailable,
)
from antiphon_core.ports.store import (
    Fence,
    History,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnRequest,
    TurnStart,
)
from antiphon_store.backends import node_rows
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.postgres import rows, schema, server
from antiphon_store.backends.postgres.connections import READY_TIMEOUT_S, Connections
from antiphon_store.backends.postgres.event_logs import PostgresEventLogs
from antiphon_store.backends.postgres.jobs import PostgresJobs
from antiphon_store.backends.postgres.lineage import PostgresLineage, digests_of
from antiphon_store.backends.postgres.outcomes import AGAIN, Outcome
from antiphon_store.backends.postgres.server import Connection


class PostgresBackend(PostgresEventLogs, PostgresJobs, PostgresLineage):
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

    async def put(self, tenant: str, write: Write) -> Stamp:
        return await self._write(tenant, write, ends_turn=False)

    async def fetch(self, tenant: str, response_id: str) -> Record:
        found = await self._run("read_node", {"tenant": tenant, "id": response_id})
        if not found:
            raise ResponseNotFound.of(response_id)
        return node_rows.to_record(found[0])

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        parameters = {"tenant": tenant, "id": response_id, **rows.precondition_parameters(precondition)}
        outcome = Outcome.of(await self._run("remove", parameters))
        outcome.require_removed(response_id, precondition)

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        bounds = ChainBounds(response_id, max_depth, max_bytes)
        chain = rows.chain_of(await self._run("chain", _walk(tenant, bounds)), bounds)
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

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        if request.session_id is not None:
            return await self._begin_in_session(tenant, request.session_id, request)
        if request.previous_response_id is None:
            self._connections.require_open()
            return TurnStart(History())
        bounds = ChainBounds(request.previous_response_id, request.max_depth, request.max_bytes)
        history = rows.history_of(await self._run("history", _walk(tenant, bounds)), bounds)
        if history is None:
            raise PreviousResponseNotFound.of(request.previous_response_id)
        return TurnStart(history)

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        if fence is None:
            return await self._write(tenant, write, ends_turn=False)
        fenced = replace(write, precondition=replace(write.precondition, fence=fence))
        return await self._write(tenant, fenced, ends_turn=True)

    # ---- Within an atom ----

    async def _write(self, tenant: str, write: Write, *, ends_turn: bool) -> Stamp:
        """Shares the trees with other writers; the rare write that cannot asks a second time, for all of them."""
        parameters = {
            "tenant": tenant,
            "ends_turn": ends_turn,
            "digests": digests_of(write.item_ids),
            **rows.write_parameters(write),
        }

        async def atom(connection: Connection) -> Outcome:
            outcome = Outcome.of(await self._ask(connection, "write", {**parameters, "exclusive": False}))
            if outcome.name == AGAIN:
                outcome = Outcome.of(await self._ask(connection, "write", {**parameters, "exclusive": True}))
            return outcome

        return (await self._connections.run(atom)).stamp(write.record, write.precondition)

    async def _begin_in_session(self, tenant: str, session_id: str, request: TurnRequest) -> TurnStart:
        parameters = {
            "tenant": tenant,
            "session_id": session_id,
            "holder": request.holder.encode(),
            "ttl_ms": request.lease_ttl_ms,
            "max_depth": request.max_depth,
            "max_bytes": request.max_bytes,
        }
        *turns, last = await self._run("begin_turn", parameters)
        outcome, head_id, token, expires_at_ms = last[:4]
        if outcome == "locked":
            raise SessionLocked.of(session_id)
        if outcome == "too_long":
            turns = [last]
        bounds = ChainBounds(head_id or "", request.max_depth, request.max_bytes)
        history = rows.history_of([turn[4:] for turn in turns], bounds)
        lease = Lease(Fence(session_id, token), request.holder, expires_at_ms)
        return TurnStart(history or History(), lease)

    # ---- Connections ----

    async def _configure(self, connection: Connection) -> None:
        await server.configure(connection, schema=self._schema, durability=self.durability)

    async def _prepare(self, connection: Connection) -> None:
        await server.require_server(connection, self.durability)
        if self.migrate:
            await schema.migrate(connection, self._schema)
        await schema.require_current(connection, self._schema)


def _walk(tenant: str, bounds: ChainBounds) -> rows.Parameters:
    return {
        "tenant": tenant,
        "id": bounds.response_id,
        "max_depth": bounds.max_depth,
        "max_bytes": bounds.max_bytes,
    }


def _under(tenant: str, fence: Fence) -> rows.Parameters:
    return {"tenant": tenant, "session_id": fence.session_id, "token": fence.token}
