"""Many concurrent writers on few trees: no write is lost, no deadlock occurs, and the tables stay consistent."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection, sql

from antiphon_core.errors import AlreadyExists, NotFound, PreviousResponseNotFound, SessionLocked, StaleFence
from antiphon_core.ids import tree_tag
from antiphon_core.ports.store import Record, TurnCommit
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, turn_in
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.volume import volume

TENANT = "t"
REFUSALS = (AlreadyExists, NotFound, PreviousResponseNotFound, SessionLocked, StaleFence)

# Finds responses whose parent is missing or not one level above, or not the response before on the same branch.
BROKEN = """
WITH node AS (
    SELECT tenant, tree, id, place, fields::jsonb ->> 'parent' AS parent_id FROM stored_row WHERE kind = 'node'
)
SELECT node.tree, node.id, node.place
FROM node LEFT JOIN node AS parent ON (parent.tenant, parent.tree, parent.id) = (node.tenant, node.tree, node.parent_id)
WHERE (node.parent_id IS NOT NULL AND parent.id IS NULL)
    OR node.place & 4294967295 <> coalesce((parent.place & 4294967295) + 1, 0)
    OR (parent.place <> node.place - 1 AND EXISTS (
        SELECT FROM node AS before
        WHERE (before.tenant, before.tree, before.place) = (node.tenant, node.tree, node.place - 1)
    ))
"""


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
async def stores(schema: str, long_timeouts: None) -> AsyncIterator[list[StoreService]]:
    """Two replicas over one database, with long timeouts."""
    url = shared_postgres().url
    backends = [PostgresRows(url, database_schema=schema, durability=Durability.PROCESS) for _ in range(2)]
    for backend in backends:
        await backend.open()
    yield [StoreService(backend) for backend in backends]
    for backend in backends:
        await backend.close()


async def broken_rows(schema: str) -> list[tuple[object, ...]]:
    connection: Connection = await AsyncConnection.connect(shared_postgres().url, autocommit=True)
    async with connection:
        await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        return await (await connection.execute(BROKEN)).fetchall()


async def test_concurrent_children_are_all_kept_once(stores: list[StoreService], schema: str) -> None:
    parents = [draft() for _ in range(volume(6, 20))]
    for parent in parents:
        await stores[0].put(TENANT, parent)
    children = [draft(parent) for parent in parents for _ in range(64)]
    random.Random(7).shuffle(children)
    stamps = await asyncio.gather(*(stores[n % 2].put(TENANT, child) for n, child in enumerate(children)))
    assert {stamp.depth for stamp in stamps} == {1}
    for child in children:
        chain = await stores[0].chain(TENANT, child.id)
        assert [each.id for each in chain] == [child.parent_id, child.id]
    assert await broken_rows(schema) == []


@dataclass(frozen=True, slots=True)
class Actor:
    """Makes random calls. Rejections are ignored."""

    store: StoreService
    dice: random.Random
    known: list[Record]

    async def act(self, times: int) -> None:
        for _ in range(times):
            record = self.dice.choice(self.known)
            deed = self.dice.choice((self.put_child, self.put_child, self.put_again, self.delete, self.take_turn))
            with contextlib.suppress(*REFUSALS):
                await deed(record)

    async def put_child(self, parent: Record) -> None:
        await self.store.put(TENANT, self.new(draft(parent)))

    async def put_again(self, record: Record) -> None:
        await self.store.put(TENANT, record)

    async def delete(self, record: Record) -> None:
        await self.store.delete(TENANT, record.id)

    async def take_turn(self, parent: Record) -> None:
        """Commits a turn in one of two sessions of the tree, behind `parent`."""
        session_id = f"conv_{tree_tag(parent.id)}{self.dice.randrange(2):032}"
        holder = f"holder-{self.dice.random()}"
        start = await self.store.begin_turn(TENANT, turn_in(session_id, holder=holder, wait_ms=100))
        assert start.lease is not None
        child = self.new(draft(parent, session_id=session_id))
        try:
            await self.store.commit_turn(TENANT, TurnCommit(child, start.lease.fence))
        finally:
            await self.store.abort_turn(TENANT, start.lease.fence)

    def new(self, record: Record) -> Record:
        self.known.append(record)
        return record


@pytest.mark.parametrize("seed", range(3))
async def test_trees_stay_whole_under_random_concurrent_operations(
    stores: list[StoreService], schema: str, seed: int
) -> None:
    known = [draft() for _ in range(3)]
    for root in known:
        await stores[0].put(TENANT, root)
    actors = [Actor(stores[n % 2], random.Random(100 * seed + n), known) for n in range(12)]
    await asyncio.gather(*(actor.act(volume(30, 60)) for actor in actors))
    assert await broken_rows(schema) == []
    for record in known:
        with contextlib.suppress(NotFound):
            await require_whole(stores[0], record)


async def require_whole(store: StoreService, record: Record) -> None:
    chain = await store.chain(TENANT, record.id)
    assert [each.depth for each in chain] == list(range(len(chain)))
    assert [each.parent_id for each in chain[1:]] == [each.id for each in chain[:-1]]
