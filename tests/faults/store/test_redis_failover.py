"""Sentinel chooses another master while the old one is stopped and wakes up later: at durability `quorum` every
acknowledged response is there afterwards, and the old master acknowledges nothing."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import Record
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.testing.subject import content, draft
from tests.support.redis_servers import WatchedRedis, backend_at, watched_redis

TENANT = "t"
WRITERS = 16
BEFORE_S, STOPPED_S, AFTER_S = 0.5, 4.0, 2.5
GAP_S_MAX = 8.0


async def write_on(backend: RedisBackend, until: float, acknowledged: list[tuple[float, Record]]) -> None:
    """Chains of responses; what fails is asked for again, unless its parent is not there."""
    parent = None
    while time.monotonic() < until:
        record = draft(parent)
        try:
            await backend.put(TENANT, Write(record))
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        else:
            acknowledged.append((time.monotonic(), record))
            parent = record


async def stop_and_wake(watched: WatchedRedis) -> None:
    await asyncio.sleep(BEFORE_S)
    master = watched.master()
    master.pause()
    await asyncio.sleep(STOPPED_S)
    master.resume()
    assert watched.master() is not master


async def test_nothing_acknowledged_is_lost_in_a_failover() -> None:
    with watched_redis() as watched:
        # Two clients: to one, the old master's connections are open while it sleeps; the other is used all the time.
        backends = [backend_at(watched.url, durability=Durability.QUORUM) for _ in range(2)]
        for backend in backends:
            await backend.open()
        acknowledged: list[tuple[float, Record]] = []
        until = time.monotonic() + BEFORE_S + STOPPED_S + AFTER_S
        writers = [write_on(backends[number % 2], until, acknowledged) for number in range(WRITERS)]
        await asyncio.gather(stop_and_wake(watched), *writers)

        times = sorted(at for at, _record in acknowledged)
        gap_s = max(later - earlier for earlier, later in pairwise(times))
        assert gap_s < GAP_S_MAX
        assert times[-1] > until - 1
        reader = backend_at(watched.url, durability=Durability.QUORUM)
        await reader.open()
        for _at, record in acknowledged:
            assert content(await reader.fetch(TENANT, record.id)) == content(record)
        print(f"{len(acknowledged)} acknowledged, 0 lost, longest gap {gap_s:.1f} s")
        for backend in (*backends, reader):
            await backend.close()
