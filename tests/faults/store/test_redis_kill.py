"""kill -9 of a Redis server that writes its file before it answers: nothing acknowledged is lost, no chain broken."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.store import Record, TurnCommit
from antiphon_store.backends.base import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import content, draft
from tests.support.redis_servers import RedisServer, backend_at, redis_server

ACKNOWLEDGED = 5_000  # in each round
ROUNDS = 2
WRITERS = 32
TENANT = "t"


async def write_until_killed(server: RedisServer) -> list[Record]:
    """The last acknowledged response of each writer's chain, and of all others too, when the server was killed."""
    backend = backend_at(server.url, durability=Durability.DISK)
    await backend.open()
    store = StoreService(backend)
    acknowledged: list[Record] = []

    async def write() -> None:
        parent = None
        while True:
            record = draft(parent)
            await store.commit_turn(TENANT, TurnCommit(record))
            acknowledged.append(record)
            parent = record

    async def kill() -> None:
        while len(acknowledged) < ACKNOWLEDGED:
            await asyncio.sleep(0.005)
        server.kill()

    outcomes = await asyncio.gather(kill(), *(write() for _ in range(WRITERS)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes[1:]} == {StoreUnavailable}
    await backend.close()
    return acknowledged


async def test_acknowledged_writes_survive_kill_9_of_the_server() -> None:
    with redis_server() as server:
        written: list[Record] = []
        for _ in range(ROUNDS):
            written += await write_until_killed(server)
            server.start()
        assert len(written) >= ROUNDS * ACKNOWLEDGED
        backend = backend_at(server.url, durability=Durability.DISK)
        await backend.open()
        for record in written:
            assert content(await backend.fetch(TENANT, record.id)) == content(record)
        for record in written[-WRITERS:]:
            chain = await backend.ancestry(TENANT, record.id, max_depth=1000, max_bytes=2**24)
            assert [each.depth for each in chain] == list(range(len(chain)))
        await backend.close()


async def test_a_backend_goes_on_after_a_restart() -> None:
    with redis_server() as server:
        backend = backend_at(server.url, durability=Durability.DISK)
        await backend.open()
        store, record = StoreService(backend), draft()
        await store.put(TENANT, record)
        server.kill()
        for attempt in (store.get(TENANT, record.id), store.put(TENANT, draft()), store.ready()):
            with pytest.raises(AntiphonError) as caught:
                await attempt
            assert type(caught.value) is StoreUnavailable
        server.start()
        await store.ready()
        assert content(await store.get(TENANT, record.id)) == content(record)
        await backend.close()
