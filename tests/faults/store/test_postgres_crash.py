"""The server dies while it is written to: what was acknowledged is there when it is back, and so are we."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import Record, TurnCommit
from antiphon_store.backends.base import Durability
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.postgres_server import PostgresServer, postgres_server

TENANT = "t"
WRITERS = 16
ACKNOWLEDGED_MIN = 500


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


async def write_lines(store: StoreService, acknowledged: list[Record]) -> None:
    """Turns, each continuing the one before, until the store fails."""
    parent = None
    with contextlib.suppress(StoreUnavailable):
        while True:
            record = draft(parent)
            await store.commit_turn(TENANT, TurnCommit(record))
            acknowledged.append(record)
            parent = record


@pytest.mark.parametrize("end", [PostgresServer.kill, PostgresServer.crash], ids=["kill -9", "immediate stop"])
async def test_acknowledged_writes_survive(server: PostgresServer, end: Callable[[PostgresServer], None]) -> None:
    backend = PostgresBackend(server.url, durability=Durability.DISK)
    await backend.open()
    store = StoreService(backend)
    acknowledged: list[Record] = []
    writers = [asyncio.create_task(write_lines(store, acknowledged)) for _ in range(WRITERS)]
    while len(acknowledged) < ACKNOWLEDGED_MIN:
        await asyncio.sleep(0.005)
    await asyncio.to_thread(end, server)
    await asyncio.wait_for(asyncio.gather(*writers), 20)
    with pytest.raises(StoreUnavailable):
        await backend.ready()

    await asyncio.to_thread(server.start)
    await backend.ready()
    for record in acknowledged:
        assert (await store.get(TENANT, record.id)).version == 1
    for record in acknowledged[-WRITERS:]:
        chain = await store.chain(TENANT, record.id)
        assert [each.depth for each in chain] == list(range(len(chain)))
    await backend.close()


async def test_a_restart_between_two_calls_is_not_noticed(server: PostgresServer) -> None:
    """Idle connections that died meanwhile are found out before they are used."""
    backend = PostgresBackend(server.url)
    await backend.open()
    store, record = StoreService(backend), draft()
    await asyncio.gather(*(store.put(TENANT, draft()) for _ in range(30)))
    await store.put(TENANT, record)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    answers = await asyncio.gather(*(store.get(TENANT, record.id) for _ in range(30)))
    assert {answer.id for answer in answers} == {record.id}
    await backend.close()


async def test_a_server_that_is_gone_is_said_at_once(server: PostgresServer) -> None:
    backend = PostgresBackend(server.url)
    await backend.open()
    await asyncio.to_thread(server.stop)
    for _ in range(3):
        async with asyncio.timeout(1):
            with pytest.raises(StoreUnavailable):
                await backend.fetch(TENANT, draft().id)
    await asyncio.to_thread(server.start)
    await backend.ready()
    await backend.close()
