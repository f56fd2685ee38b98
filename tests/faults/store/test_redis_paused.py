"""A paused Redis server with open sockets: readiness fails within its timeout, and calls succeed after it resumes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.connection import OPTIONS
from antiphon_store.backends.redis.link import READY_TIMEOUT_S
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.redis_servers import NO_FILES, RedisServer, redis_cluster, redis_rows, redis_server
from tests.support.waiting import least, with_retries

BUSY_S = 6.0  # tolerance beyond a timeout on a busy machine


@pytest.fixture(params=["single", "cluster"])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[str, RedisServer]]:
    """The URL of the server or cluster, and one server of it."""
    if request.param == "single":
        with redis_server(NO_FILES) as server:
            yield server.url, server
        return
    with redis_cluster(NO_FILES) as cluster:
        yield cluster.url, cluster.masters[1]


async def test_a_paused_redis_fails_readiness_within_its_timeout(
    servers: tuple[str, RedisServer], long_timeouts: None
) -> None:
    """Readiness has its own timeout, whatever the timeout of other calls is."""
    assert READY_TIMEOUT_S < 1
    url, server = servers
    backend = StoreService(redis_rows(url))
    await backend.open()
    await with_retries(backend.ready)
    server.pause()

    async def refusal() -> float:
        began_s = time.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await backend.ready()
        return time.monotonic() - began_s

    soon_s = READY_TIMEOUT_S + BUSY_S
    for _ in range(2):
        assert await least(refusal, most=soon_s) < soon_s
    server.resume()
    await with_retries(backend.ready)
    await backend.close()


async def test_a_write_to_a_paused_redis_is_answered_when_it_resumes(long_timeouts: None) -> None:
    with redis_server(NO_FILES) as server:
        backend = StoreService(redis_rows(server.url))
        await backend.open()
        server.pause()
        record = draft()
        writing = asyncio.create_task(backend.put("t", record))
        await asyncio.sleep(0.1)
        assert not writing.done()
        server.resume()
        assert (await writing).version == 1
        await backend.close()


async def test_a_write_to_a_paused_redis_times_out_and_can_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, "socket_timeout", 0.2)
    with redis_server(NO_FILES) as server:
        backend = StoreService(redis_rows(server.url))
        await with_retries(backend.open)
        server.pause()
        record = draft()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await backend.put("t", record)
        server.resume()
        stamp = await with_retries(lambda: backend.put("t", record))
        assert stamp.version == 1  # the first write may have happened; a retry is safe
        await backend.close()
