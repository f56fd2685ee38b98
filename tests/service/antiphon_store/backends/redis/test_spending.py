"""Spending as it lies in Redis. What it does: the suites of spending."""

from __future__ import annotations

import pytest
import redis

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.spending import Draw, Hold, Level, Spend
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.keys import TENANTS
from antiphon_store.testing.subject import draft
from tests.support.redis_servers import backend_at, shared_redis

ONE = Draw("requests", amount=1, at_least=1, capacity=60, per_minute=60)
GRACE_MS = 3_600_000


async def test_idle_tenants_vanish(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    await backend.spend(tenant, Spend([ONE], Hold(["a", "b"], 30_000)))
    buckets, places = backend._keys.spending_keys(tenant)
    assert sorted(server.scan_iter(f"antiphon:{{{tenant}}}*", count=10_000)) == [buckets, places]
    assert limits.SPENDING_MEMORY_MS < int(server.pttl(buckets)) <= limits.SPENDING_MEMORY_MS + GRACE_MS + 1_000
    assert 30_000 < int(server.pttl(places)) <= 30_000 + GRACE_MS
    await backend.spend(tenant, Spend(release=["a", "b"]))
    assert not server.exists(places)


async def test_debts_stay_until_they_are_paid(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    minutes = 10 * limits.SPENDING_MEMORY_MS // 60_000
    await backend.spend(tenant, Spend([Draw("slow", amount=minutes, capacity=1, per_minute=1)]))
    await backend.spend(tenant, Spend([ONE]))
    buckets, _places = backend._keys.spending_keys(tenant)
    assert int(server.pttl(buckets)) > 10 * limits.SPENDING_MEMORY_MS


async def test_places_that_ended_leave_nothing(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    await backend.spend(tenant, Spend(hold=Hold([f"p{number}" for number in range(100)], 1_000)))
    clock.advance(1)
    await backend.spend(tenant, Spend(hold=Hold(["last"], 1_000)))
    assert server.zcard(backend._keys.spending_keys(tenant)[1]) == 1


async def test_nobody_waits_for_replicas_nor_is_announced(
    server: redis.Redis, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not to be kept: neither on replicas nor for the sweeper."""
    monkeypatch.setattr("antiphon_store.backends.redis.link.WAIT_TIMEOUT_MS", 20)
    backend = backend_at(shared_redis().url)
    await backend.open()
    backend._opened._replicas = 1  # there is none: who waits for one is refused
    with pytest.raises(StoreUnavailable, match="may be kept or lost"):
        await backend.put(f"{tenant}-other", Write(draft()))
    assert (await backend.spend(tenant, Spend([ONE]))).levels == (Level("requests", 59, 60, 1_000),)
    assert not server.sismember(TENANTS, tenant)
    await backend.close()
