"""PostgreSQL dies during writes: acknowledged records are there after the restart, and the store reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest
from antiphon_store.backends.postgres import connections
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.faults.store.acknowledged import TENANT, require_all, write_until_killed
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.volume import volume
from tests.support.waiting import WAIT_MAX_S, with_retries

ACKNOWLEDGED_MIN = volume(300, 1_000)  # test_kill.py has more


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.mark.parametrize("end", [PostgresServer.kill, PostgresServer.crash], ids=["kill -9", "immediate stop"])
async def test_acknowledged_writes_survive_a_crash_of_postgres(
    server: PostgresServer, end: Callable[[PostgresServer], None]
) -> None:
    backend = StoreService(PostgresRows(server.url, durability=Durability.DISK))
    await backend.open()
    store = backend
    acknowledged = await write_until_killed(store, partial(end, server), ACKNOWLEDGED_MIN)
    with pytest.raises(StoreUnavailable):
        await backend.ready()

    await asyncio.to_thread(server.start)
    await with_retries(backend.ready)
    await require_all(store, acknowledged)
    await backend.close()


async def test_quotas_go_on_after_a_crash(server: PostgresServer) -> None:
    """Quota requests do not wait for the disk. A crash may lose the last requests, but the bucket still counts."""
    backend = StoreService(PostgresRows(server.url))
    await backend.open()
    draw = Draw("requests", amount=15, at_least=1, capacity=20, per_minute=0.001)
    request = QuotaRequest([draw], Hold(["a"], ttl_ms=3_600_000, most=1))
    assert round((await backend.take_quota(TENANT, request)).levels[0].level) == 5
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)
    await backend.take_quota(TENANT, QuotaRequest(release=["a"]))
    assert round((await backend.take_quota(TENANT, request)).levels[0].level) in (5, -10)
    await backend.close()


async def test_a_restart_between_two_calls_is_not_noticed(server: PostgresServer) -> None:
    """The pool finds dead idle connections before it uses them."""
    backend = StoreService(PostgresRows(server.url))
    await backend.open()
    store, record = backend, draft()
    await asyncio.gather(*(store.put(TENANT, draft()) for _ in range(30)))
    await store.put(TENANT, record)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    answers = await asyncio.gather(*(store.get(TENANT, record.id) for _ in range(30)))
    assert {answer.id for answer in answers} == {record.id}
    await backend.close()


async def test_a_stopped_server_raises_store_unavailable_at_once(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls wait neither for a connection nor for the timeout of an atom."""
    monkeypatch.setattr(connections, "CONNECTION_WAIT_S", 2 * WAIT_MAX_S)
    monkeypatch.setattr(connections, "ATOM_TIMEOUT_S", 2 * WAIT_MAX_S)
    backend = StoreService(PostgresRows(server.url))
    await backend.open()
    await asyncio.to_thread(server.stop)
    for _ in range(3):
        async with asyncio.timeout(WAIT_MAX_S / 3):
            with pytest.raises(StoreUnavailable):
                await backend.get(TENANT, draft().id)
    await asyncio.to_thread(server.start)
    await with_retries(backend.ready)
    await backend.close()
