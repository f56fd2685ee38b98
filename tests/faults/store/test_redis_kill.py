"""kill -9 of a Redis server that writes its file before it answers: acknowledged records and whole chains survive."""

from __future__ import annotations

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.store import Record
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import content, draft
from tests.faults.store.acknowledged import ACKNOWLEDGED, TENANT, require_all, write_until_killed
from tests.support.redis_servers import redis_rows, redis_server
from tests.support.waiting import with_retries

ROUNDS = 2


async def test_acknowledged_writes_survive_kill_9_of_the_server(long_timeouts: None) -> None:
    with redis_server() as server:
        written: list[Record] = []
        for _ in range(ROUNDS):
            backend = redis_rows(server.url, durability=Durability.DISK)
            await backend.open()
            written += await write_until_killed(StoreService(backend), server.kill, ACKNOWLEDGED // ROUNDS)
            await backend.close()
            server.start()
        backend = redis_rows(server.url, durability=Durability.DISK)
        await backend.open()
        await require_all(StoreService(backend), written)
        await backend.close()


async def test_a_backend_reconnects_after_a_restart_of_redis(long_timeouts: None) -> None:
    with redis_server() as server:
        backend = redis_rows(server.url, durability=Durability.DISK)
        await backend.open()
        store, record = StoreService(backend), draft()
        await store.put(TENANT, record)
        server.kill()
        for attempt in (store.get(TENANT, record.id), store.put(TENANT, draft()), store.ready()):
            with pytest.raises(AntiphonError) as caught:
                await attempt
            assert type(caught.value) is StoreUnavailable
        server.start()
        await with_retries(store.ready)
        assert content(await store.get(TENANT, record.id)) == content(record)
        await backend.close()
