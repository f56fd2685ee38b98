"""Rows in one PostgreSQL database, for any number of processes. A primitive is one statement; a rejected read, two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from antiphon_core import offload
from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError, DataDamaged, StoreUnavailable
from antiphon_store.backends.postgres import queries, schema, server
from antiphon_store.backends.postgres.connections import READY_TIMEOUT_S, Connections
from antiphon_store.backends.postgres.faults import has_changed_nothing
from antiphon_store.backends.postgres.maintenance import PostgresMaintenance
from antiphon_store.backends.postgres.plain_text import original, plain
from antiphon_store.backends.postgres.programs import (
    READER,
    Call,
    fetch_params,
    outcomes_of,
    outcomes_of_fetch,
    size_of,
    tree_of,
    write_params,
)
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.room import Room
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.rows import local
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    NODE_LISTS,
    VOLATILE_TREES,
    Entry,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Ref,
    Row,
    Span,
    brings_rows,
    level_id,
    listed_place,
    named_node,
)
from antiphon_store.rows.remote import RemoteBackend

# Four statements at once: one waits for the disk while another runs. Larger ones would leave processors idle.
TOGETHER = Limits(together=16, together_bytes=2**20, runs=4)

_FIRST = (-(2**63), "")
_LAST = (2**63 - 1, "\U0010ffff")

_Answer = TypeVar("_Answer")
_Together = Callable[[Sequence[Call]], Awaitable[Sequence[_Answer | DataDamaged]]]


class PostgresRows(RemoteBackend):
    """Implements `rows.backend.RowBackend`.

    `clock` replaces the server's clock in tests; with `migrate`, `open` brings the schema up to date."""

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
        self._clock = clock
        self._connections = Connections(server.conninfo_of(url), configure=self._configure)
        self.maintenance = PostgresMaintenance(self._connections)
        self._room_connection = Connections(server.conninfo_of(url), configure=self._configure, most=1)
        self._room = Room(self._room_connection)
        self._writing: JointCalls[Call, Outcome] = JointCalls(isolate(self._transact), TOGETHER, size_bytes=size_of)
        self._fetching: JointCalls[Call, Outcome | None] = JointCalls(isolate(self._fetch), TOGETHER)

    async def open(self) -> None:
        await self._connections.open(self._prepare)
        await self._room_connection.open()

    async def close(self) -> None:
        for each in (self._fetching, self._writing):
            await each.settle()
        await self._room_connection.close()
        await self._connections.close()

    async def ready(self) -> None:
        ((is_read_only, _any_row),) = await self._run(QUERIES["rows_ready"], {}, timeout_s=READY_TIMEOUT_S)
        if is_read_only:
            raise StoreUnavailable("The store cannot be used: its database is read-only.")
        await self._room.require()

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        if partition.tree in VOLATILE_TREES:  # alone: it would make the other programs of its statement volatile
            (alone,) = await self._transact([Call(partition, program)])
            if isinstance(alone, DataDamaged):
                raise alone
            return alone
        call = Call(partition, program)
        if program.changes:
            return await self._room.write(lambda: self._writing.run(call), in_reserve=not brings_rows(program))
        outcome = await self._fetching.run(call)
        return outcome if outcome is not None else await self._writing.run(call)

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        if index in NODE_LISTS:
            return await self._page_of_listed(partition, index, span, payload)
        after_at, after_id = span.after or (_LAST if span.is_descending else _FIRST)
        parameters = {
            "tenant": partition.tenant,
            "tree": tree_of(partition.tree, index),
            "index": index.value,
            "key": plain(key),
            "after_at": after_at,
            "after_id": plain(after_id),
            "limit": span.limit,
            "payload": payload,
        }
        found = await self._run(QUERIES["page_backwards" if span.is_descending else "page_forwards"], parameters)
        return found[0][0], [
            Entry(original(entry_id), at, _node(named_node(original(entry_id)), fields, items, body))
            for _now_ms, entry_id, at, fields, items, body in found
            if entry_id is not None
        ]

    async def children(
        self, partition: Partition, parents: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        named = [plain(each) for each in parents]
        found = await self._run(QUERIES["children"], {**partition._asdict(), "parents": named, "max_nodes": max_nodes})

        def read() -> Sequence[Entry]:
            nodes = [line for _now_ms, *line in found if line[0] is not None]
            names = [original(node_id) for node_id, _at, _fields in nodes]
            rows = map(Row, READER.nodes(names, [fields for _id, _at, fields in nodes]))
            return [Entry(name, at, row) for name, (_id, at, _fields), row in zip(names, nodes, rows, strict=True)]

        return found[0][0], await offload.run(read, size_bytes=sum(len(fields or "") for *_, fields in found))

    async def ancestors(self, partition: Partition, node_ids: Sequence[str], *, depth: int) -> Mapping[str, str]:
        parameters = {**partition._asdict(), "node_ids": [plain(each) for each in node_ids], "depth": depth}
        found = await self._run(QUERIES["links"], parameters)
        links = {original(node_id): (None if parent is None else original(parent), at) for node_id, parent, at in found}
        return local.ancestors(node_ids, links, depth)

    async def _page_of_listed(
        self, partition: Partition, index: Index, span: Span, payload: Payload | None
    ) -> tuple[int, Sequence[Entry]]:
        """A page of an index of all nodes, which an index of the table of rows is."""
        way, (limit_at, limit_id) = ("backwards", _LAST) if span.is_descending else ("forwards", _FIRST)
        place: Sequence[int | str] = (limit_at, limit_at, limit_id) if index is Index.LEVEL else (limit_at, limit_id)
        if span.after is not None:
            *times, node_id = listed_place(index, span.after)
            place = (*times, plain(str(node_id)))
        after = {f"after_{number}": value for number, value in enumerate(place)}
        parameters = {**partition._asdict(), **after, "limit": span.limit, "payload": payload or ""}
        found = await self._run(QUERIES[f"{index}_{way}"], parameters)

        def read() -> Sequence[Entry]:
            return [_listed_entry(index, line, payload) for line in found if line[1] is not None]

        return found[0][0], await offload.run(read, size_bytes=sum(len(fields or "") for *_, fields, _i, _b in found))

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        named = [plain(each) for each in starts]
        parameters = {**partition._asdict(), "starts": named, "max_nodes": max_nodes}
        found = await self._run(QUERIES["subtree"], parameters)

        def read() -> Sequence[Entry]:
            nodes = [(original(node_id), fields) for _now_ms, node_id, fields in found if node_id is not None]
            names = [name for name, _fields in nodes]
            rows = map(Row, READER.nodes(names, [fields for _name, fields in nodes]))
            return [Entry(name, 0, row) for name, row in zip(names, rows, strict=True)]

        return found[0][0], await offload.run(read, size_bytes=sum(len(fields or "") for *_, fields in found))

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        parameters = {"tenant": tenant, "index": index.value, "key": plain(key), "limit": limit, "hide_ms": hide_ms}
        taken = await self._room.write(lambda: self._run(QUERIES["take_due"], parameters), in_reserve=True)
        found = [Entry(original(entry_id), at) for entry_id, at in taken]
        return sorted(found, key=lambda entry: (entry.at, entry.id))

    async def tenants(self) -> Sequence[str]:
        return [tenant for (tenant,) in await self._run(QUERIES["tenants"], {})]

    # ---- Programs together ----

    async def _transact(self, calls: Sequence[Call]) -> list[Outcome | DataDamaged]:
        in_order = sorted(range(len(calls)), key=lambda place: calls[place].partition)
        ordered = [calls[place] for place in in_order]  # one order for all statements, against deadlocks
        lines = await self._run(QUERIES["transact"], write_params(ordered))
        outcomes = dict(zip(in_order, outcomes_of(ordered, lines), strict=True))
        return [outcomes[place] for place in range(len(calls))]

    async def _fetch(self, calls: Sequence[Call]) -> Sequence[Outcome | DataDamaged | None]:
        documents = fetch_params(calls)
        return outcomes_of_fetch(calls, await self._run(queries.fetch(*documents), documents))

    # ---- Connections ----

    async def _run(self, query: str, parameters: dict[str, Any], *, timeout_s: float | None = None) -> list[Any]:
        """The rows that a statement returns."""
        values = {"now_ms": self._clock.now_ms() if self._clock else None, **parameters}

        async def atom(connection: Connection) -> list[Any]:
            return await (await connection.execute(query, values, binary=True)).fetchall()

        return await self._connections.run(atom, timeout_s=timeout_s)

    async def _configure(self, connection: Connection) -> None:
        await server.configure(connection, schema=self._schema, durability=self.durability)

    async def _prepare(self, connection: Connection) -> None:
        await server.require_server(connection, self.durability)
        if self.migrate:
            await schema.migrate(connection, self._schema)
        await schema.require_current(connection)


def _node(node_id: str, fields: str | None, items: bytes | None, body: bytes | None) -> Row | None:
    return None if fields is None else READER.row(Ref(Kind.NODE, node_id), fields, items, body)


def _listed_entry(index: Index, line: Sequence[Any], payload: Payload | None) -> Entry:
    _now_ms, node_id, depth, created_ms, fields, items, body = line
    name = original(node_id)
    row = None if payload is None else _node(name, fields, items, body)
    return Entry(level_id(created_ms, name), depth, row) if index is Index.LEVEL else Entry(name, created_ms, row)


def isolate(
    run_together: _Together[_Answer],
) -> Callable[[Sequence[Call]], Awaitable[Sequence[_Answer | Exception]]]:
    """Runs programs together, and one by one if the server rejected that, so that only the faulty program fails."""

    async def run(calls: Sequence[Call]) -> Sequence[_Answer | Exception]:
        try:
            return await run_together(calls)
        except AntiphonError as error:
            if len(calls) > 1 and has_changed_nothing(error):
                alone = [await run([each]) for each in calls]
                return [outcome for (outcome,) in alone]
            return [copy(error) for _ in calls]  # a copy each: raising one error twice mixes its tracebacks

    return run
