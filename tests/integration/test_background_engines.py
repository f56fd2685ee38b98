"""Background responses over every database of the store, which all behave alike."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from antiphon_core import events
from antiphon_core.clock import ManualClock
from antiphon_core.errors import IdempotencyMismatch, ResponseNotFound, SessionLocked
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.ports.store import Status
from antiphon_edge.background.background_policy import JOB_ATTEMPTS
from antiphon_store.backends.postgres import backend as postgres
from antiphon_store.backends.postgres import room
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.redis import link
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability, RowBackend
from tests.support.background import Bench, background_request, bench, hasten, text_of, whole
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import redis_rows, shared_redis
from tests.support.waiting import WAIT_MAX_S

BACKENDS: dict[str, Callable[[ManualClock, Path], RowBackend]] = {
    "sqlite": lambda clock, folder: SqliteRows(folder / "store.db", durability=Durability.PROCESS, clock=clock),
    "postgres": lambda clock, _: PostgresRows(shared_postgres().url, durability=Durability.PROCESS, clock=clock),
    "redis": lambda clock, _: redis_rows(shared_redis().url, clock=clock),
}


@pytest.fixture(params=BACKENDS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    for module in (postgres, room, link):  # readiness may be slow on a busy machine
        monkeypatch.setattr(module, "READY_TIMEOUT_S", WAIT_MAX_S)
    async with bench(backend=lambda clock: BACKENDS[request.param](clock, tmp_path)) as made:
        yield made


@pytest.fixture
def tenant() -> str:
    return f"tenant-{secrets.token_hex(4)}"


@pytest.fixture
def talk() -> str:
    return new_conversation_id(RandomIds())


async def test_a_keyed_response_in_a_conversation_outlives_its_worker(shop: Bench, tenant: str, talk: str) -> None:
    request = background_request(input="once")
    asked = [shop.replica().create(tenant, request, session_id=talk, key="k") for _ in range(8)]
    (response_id,) = {record.id for record in await asyncio.gather(*asked)}
    with pytest.raises(IdempotencyMismatch):
        await shop.edge.create(tenant, background_request(input="other"), session_id=talk, key="k")
    with pytest.raises(SessionLocked):
        await shop.edge.create(tenant, request, session_id=talk)
    shop.engine.holds_at = 5
    async with shop.worker() as mortal:
        await shop.logged(response_id, ids=5, tenant=tenant)
        await mortal.kill()
    shop.engine.holds_at = None
    async with shop.worker():
        ended = whole(await shop.ended(response_id, tenant=tenant))
    log = await shop.log(response_id, tenant=tenant)
    assert fold(log) == log[-1]["response"] == ended
    assert (ended["status"], text_of(ended)) == ("completed", shop.engine.text)
    assert shop.engine.starts == [0, 5]
    session = await shop.store.describe_session(tenant, talk)
    assert (session.head_id, session.lease) == (response_id, None)


async def test_a_queued_and_a_running_background_response_can_be_cancelled(shop: Bench, tenant: str, talk: str) -> None:
    waiting = await shop.edge.create(tenant, background_request(), session_id=talk)
    assert (await shop.replica().cancel(tenant, waiting.id)).status is Status.CANCELLED
    assert (await shop.store.describe_session(tenant, talk)).lease is None
    running = await shop.edge.create(tenant, background_request(), session_id=talk)
    shop.engine.holds_at = 5
    async with shop.worker():
        await shop.until(lambda: len(shop.engine.told) == 5)
        ended = whole(await shop.replica().cancel(tenant, running.id))
    assert ended["status"] == "cancelled"
    assert fold(await shop.log(running.id, tenant=tenant)) == ended
    assert (await shop.store.describe_session(tenant, talk)).head_id == running.id


async def test_a_running_background_response_stops_when_it_is_deleted(shop: Bench, tenant: str) -> None:
    record = await shop.create(tenant=tenant)
    shop.engine.holds_at = 5
    async with shop.worker():
        following = asyncio.create_task(shop.frames(record.id, tenant=tenant))
        await shop.until(lambda: len(shop.engine.told) == 5)
        await shop.replica().delete(tenant, record.id)
        await shop.until(lambda: shop.engine.running == 0)
    assert events.decode(await following)[-1]["type"] == events.CANCELLED
    with pytest.raises(ResponseNotFound):
        await shop.edge.current(tenant, record.id)


async def test_a_job_of_a_deleted_response_generates_nothing(shop: Bench, tenant: str) -> None:
    record = await shop.create(tenant=tenant)
    job = await shop.claimed(tenant)
    await shop.store.delete(tenant, record.id)
    await shop.run_of(job, tenant=tenant).go()
    assert shop.engine.starts == []
    stream = shop.edge._follower.rest(tenant, record.id, after=None)
    log = [event async for batch in stream for event in events.decode(batch.frames)]
    assert log[-1]["type"] == events.CANCELLED


async def test_a_job_that_kills_every_worker_ends_as_failed(shop: Bench, tenant: str) -> None:
    record = await shop.create(tenant=tenant)
    shop.engine.holds_at = 3
    for _ in range(JOB_ATTEMPTS):
        async with shop.worker() as mortal:
            await shop.until(lambda: shop.engine.running == 1)
            await mortal.kill()
    ended = whole(await shop.ended(record.id, tenant=tenant))
    assert ended["status"] == "failed"
    assert fold(await shop.log(record.id, tenant=tenant)) == ended
