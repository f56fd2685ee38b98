"""PostgreSQL is paused: connections stay open and nothing answers. Every call ends in bounded time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from antiphon_core.errors import StaleFence, StoreUnavailable
from antiphon_core.ports.store import TurnCommit
from antiphon_store.backends.postgres import connections
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.waiting import WAIT_MAX_S, least, with_retries

TENANT = "t"
BUSY_S = 6.0  # tolerance beyond a timeout on a busy machine, shorter than the timeout of an atom


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
async def backend(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StoreService]:
    monkeypatch.setattr(connections, "CANCEL_GRACE_S", 0.2)
    backend = StoreService(PostgresRows(server.url))
    await backend.open()
    yield backend
    await backend.close()


async def test_a_paused_postgres_fails_readiness_within_its_timeout(
    server: PostgresServer, backend: StoreService
) -> None:
    assert connections.READY_TIMEOUT_S < 1

    async def refusal() -> float:
        started_s = time.monotonic()
        with pytest.raises(StoreUnavailable, match="in time"):
            await backend.ready()
        return time.monotonic() - started_s

    await with_retries(backend.ready)
    soon_s = connections.READY_TIMEOUT_S + BUSY_S
    server.pause()
    try:
        for _ in range(2):
            assert await least(refusal, most=soon_s) < soon_s
    finally:
        server.resume()
    await with_retries(backend.ready)


async def test_calls_to_a_paused_postgres_time_out_and_succeed_after_it_resumes(
    server: PostgresServer, backend: StoreService, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, record = backend, draft()
    await store.put(TENANT, record)
    monkeypatch.setattr(connections, "ATOM_TIMEOUT_S", 0.5)

    async def end() -> float:
        started_s = time.monotonic()
        calls = [store.get(TENANT, record.id), store.put(TENANT, draft()), store.chain(TENANT, record.id)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
        return time.monotonic() - started_s

    soon_s = connections.ATOM_TIMEOUT_S + BUSY_S
    server.pause()
    try:
        assert await least(end, most=soon_s) < soon_s
        await asyncio.sleep(0.3)  # time to drop the connections
    finally:
        server.resume()
    monkeypatch.setattr(connections, "ATOM_TIMEOUT_S", WAIT_MAX_S)
    assert (await store.get(TENANT, record.id)).id == record.id


async def test_a_commit_after_a_pause_longer_than_the_lease_is_rejected(
    server: PostgresServer, backend: StoreService
) -> None:
    """A lease ends by the server's clock, even while the server is paused."""
    store, session_id = backend, new_session_id()
    start = await store.begin_turn(TENANT, turn_in(session_id, lease_ttl_ms=100))
    assert start.lease is not None
    server.pause()
    await asyncio.sleep(0.15)
    server.resume()
    with pytest.raises(StaleFence):
        await store.commit_turn(TENANT, TurnCommit(draft(session_id=session_id), start.lease.fence))
