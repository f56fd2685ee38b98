"""Sweeping as it lies in Redis. What it may do: the suites of sweeping."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import NO_PRECONDITION, Precondition, Record
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis import retention
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.keys import TENANTS
from antiphon_store.testing.subject import draft
from tests.service.antiphon_store.backends.redis.conftest import Shrink
from tests.support.redis_servers import backend_at, shared_cluster

TTL_MS = 1000


def ends(backend: RedisBackend, tenant: str) -> str:
    return backend._keys.tenant_root(tenant, "") + ":ends"


async def put(backend: RedisBackend, tenant: str, parent: Record | None = None, ttl_ms: int | None = TTL_MS) -> Record:
    record = draft(parent, session_id="s")
    await backend.put(tenant, Write(record, ttl_ms=ttl_ms, item_ids=("one", record.id)))
    return record


async def test_what_lives_on_is_looked_at_once(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    root = await put(backend, tenant)
    await put(backend, tenant, root, ttl_ms=None)
    clock.advance(1)
    assert await backend.sweep(tenant, limit=9) == Sweeping()
    assert server.zcard(ends(backend, tenant)) == 0


async def test_an_ancestor_that_was_passed_over_goes_with_its_last_descendant(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    root = await put(backend, tenant)
    child = await put(backend, tenant, root, ttl_ms=2 * TTL_MS)
    clock.advance(1)
    assert await backend.sweep(tenant, limit=9) == Sweeping()
    clock.advance(1)
    swept = await backend.sweep(tenant, limit=9)
    size = sum(len(each.body) + len(each.input_items) + len(each.output_items) for each in (root, child))
    assert swept == Sweeping(2, size)
    assert not list(server.scan_iter(f"antiphon:{{{tenant}}}*", count=10_000))


async def test_a_longer_life_counts(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    record = await put(backend, tenant)
    await backend.put(tenant, Write(replace(record, body=b"{}"), Precondition(version=1), ttl_ms=3 * TTL_MS))
    clock.advance(1)
    assert await backend.sweep(tenant, limit=9) == Sweeping()
    (member,) = server.zrange(ends(backend, tenant), 0, 0)
    server.zadd(ends(backend, tenant), {str(member): 1})  # filed too early
    assert await backend.sweep(tenant, limit=9) == Sweeping()
    clock.advance(2)
    assert (await backend.sweep(tenant, limit=9)).records == 1


async def test_what_the_server_reclaimed_by_itself_is_not_counted(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    log_id = draft().id
    append = EventAppend(response_id=log_id, expected_position=0, count=1, frames=b"x\n\n", terminal=False)
    await backend.append_events(tenant, append, fence=None, ttl_ms=TTL_MS)
    record = await put(backend, tenant)
    for each in (log_id, record.id):
        server.delete(*server.scan_iter(f"{backend._keys.tree_root(tenant, each)}:*"))
    clock.advance(1)
    assert await backend.sweep(tenant, limit=9) == Sweeping()
    assert server.zcard(ends(backend, tenant)) == 0


async def test_a_log_gives_back_its_frames(backend: RedisBackend, tenant: str, clock: ManualClock) -> None:
    log_id = draft().id
    for position, frames in ((0, b"one\n\n"), (1, b"three\n\n")):
        append = EventAppend(response_id=log_id, expected_position=position, count=1, frames=frames, terminal=False)
        await backend.append_events(tenant, append, fence=None, ttl_ms=TTL_MS)
    clock.advance(1)
    assert await backend.sweep(tenant, limit=9) == Sweeping(1, len(b"one\n\nthree\n\n"))


async def test_a_sweep_that_finds_little_goes_on_looking(
    backend: RedisBackend, tenant: str, clock: ManualClock, shrink: Shrink
) -> None:
    shrink("SWEEP", LOOKS_PER_SCRIPT=5)
    for _ in range(13):
        await put(backend, tenant, await put(backend, tenant), ttl_ms=None)
    clock.advance(0.001)
    await put(backend, tenant)
    clock.advance(2)
    assert (await backend.sweep(tenant, limit=9)).records == 1


async def test_whoever_wrote_is_a_tenant(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    assert tenant not in await backend.tenants()
    await backend.describe_session(tenant, "s")
    assert tenant not in await backend.tenants()
    record = await put(backend, tenant)
    await backend.remove(tenant, record.id, NO_PRECONDITION)
    found = await backend.tenants()
    assert found.count(tenant) == 1
    assert tenant in server.smembers(TENANTS)


async def test_many_tenants_are_read_in_parts(backend: RedisBackend, server: redis.Redis) -> None:
    names = {f"many-{secrets.token_hex(8)}" for _ in range(3_000)}
    server.sadd(TENANTS, *names)
    found = await backend.tenants()
    server.srem(TENANTS, *names)
    assert names <= set(found)
    assert len(found) == len(set(found))


async def test_a_tenant_is_announced_again_after_a_while(
    backend: RedisBackend, server: redis.Redis, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(backend, tenant)
    server.srem(TENANTS, tenant)  # as a failover may
    await put(backend, tenant)
    assert tenant not in await backend.tenants()
    monkeypatch.setattr(retention, "ANNOUNCE_AGAIN_S", 0.0)
    await put(backend, tenant)
    assert tenant in await backend.tenants()


async def test_a_closed_store_has_no_tenants(backend: RedisBackend) -> None:
    await backend.close()
    with pytest.raises(StoreUnavailable):
        await backend.tenants()


async def test_on_a_cluster_all_tenants_are_known_at_one_place(tenant: str) -> None:
    backend = backend_at(shared_cluster().url)
    await backend.open()
    tenants = {f"{tenant}-{number}" for number in range(20)}
    for each in tenants:
        await put(backend, each)
    assert tenants <= set(await backend.tenants())
    await backend.close()


async def test_nobody_has_anything_to_sweep_where_trees_are_spread(tenant: str) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    await backend.put(tenant, Write(draft()))
    assert tenant not in await backend.tenants()
    await backend.close()
