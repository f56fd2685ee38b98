"""Idempotency keys as they lie in Redis. What they do: tests/contract/store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import redis

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.errors import IdempotencyMismatch, StaleFence, Unimplemented
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.testing.conversations import names_in, new_id
from antiphon_store.testing.idempotency import FINGERPRINT, OTHER, keyed
from antiphon_store.testing.subject import draft
from tests.service.antiphon_store.backends.redis.test_turns import converse, interfere
from tests.support.redis_servers import backend_at, shared_cluster

CLAIM_MS = 600_000
HOUR_MS = 3600 * 1000


def changes(server: redis.Redis) -> int:
    """How many the server has counted."""
    info = server.info("persistence")
    assert isinstance(info, dict)
    return int(info["rdb_changes_since_last_save"])


async def test_a_key_is_one_key_that_the_server_reclaims(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    record = draft()
    name = f"antiphon:{{{tenant}}}::key:{{ü}}:k"
    await backend.begin_turn_once(tenant, keyed(record, key="{ü}:k"), claim_ttl_ms=CLAIM_MS)
    assert server.hget(name, "response") == record.id
    day_ms = limits.IDEMPOTENCY_MEMORY_MS
    assert day_ms < server.pttl(name) <= day_ms + HOUR_MS
    await backend.commit_turn_once(tenant, Write(record), None, key="{ü}:k")
    assert server.hexists(name, "stamp")
    assert day_ms < server.pttl(name) <= day_ms + HOUR_MS


async def test_a_claim_that_is_longer_than_a_day_is_kept_as_long(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    long_ms = 3 * limits.IDEMPOTENCY_MEMORY_MS
    await backend.begin_turn_once(tenant, keyed(draft()), claim_ttl_ms=long_ms)
    assert server.pttl(f"antiphon:{{{tenant}}}::key:k") > long_ms


async def test_nothing_stays_of_a_key_that_was_given_up(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    record = draft()
    await backend.begin_turn_once(tenant, keyed(record), claim_ttl_ms=CLAIM_MS)
    await backend.forget_key(tenant, "k", record.id)
    assert list(server.scan_iter(f"antiphon:{{{tenant}*", count=1000)) == []


async def test_a_result_that_expired_frees_the_key(backend: RedisBackend, tenant: str, clock: ManualClock) -> None:
    first, second = draft(), draft()
    await backend.put_once(tenant, Write(first, ttl_ms=1000), key="k", fingerprint=FINGERPRINT)
    assert (await backend.begin_turn_once(tenant, keyed(second), claim_ttl_ms=CLAIM_MS)).replay is not None
    clock.advance(1)
    start = await backend.begin_turn_once(tenant, keyed(second), claim_ttl_ms=CLAIM_MS)
    assert (start.replay, start.running_response_id) == (None, None)


async def test_a_stamp_comes_back_as_it_was(backend: RedisBackend, tenant: str, clock: ManualClock) -> None:
    parent = draft()
    await backend.put(tenant, Write(parent))
    record = draft(parent)
    for ttl_ms, key in ((None, "for ever"), (1_000, "for a second")):
        write = Write(record, ttl_ms=ttl_ms)
        stamp = await backend.put_once(tenant, write, key=key, fingerprint=FINGERPRINT)
        clock.advance(0.5)
        assert await backend.put_once(tenant, write, key=key, fingerprint=FINGERPRINT) == stamp
        record = draft(parent)


async def test_a_repetition_is_written_again(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    """At durability `quorum` an answer waits for the replicas only if its script wrote."""
    put, turn = Write(draft()), Write(draft())
    await backend.put_once(tenant, put, key="p", fingerprint=FINGERPRINT)
    await backend.commit_turn_once(tenant, turn, None, key="t")
    repetitions: list[Callable[[], Awaitable[object]]] = [
        lambda: backend.put_once(tenant, put, key="p", fingerprint=FINGERPRINT),
        lambda: backend.commit_turn_once(tenant, turn, None, key="t"),
    ]
    for again in repetitions:
        before = changes(server)
        await again()
        assert changes(server) > before


async def test_a_key_is_claimed_only_with_the_history(backend: RedisBackend, tenant: str) -> None:
    """Looking at a conversation from which items were taken out claims nothing yet."""
    conversation_id = await converse(backend, tenant, "a", "b")
    await backend.remove_item(tenant, conversation_id, "a")
    first, second = draft(tag=conversation_id), draft(tag=conversation_id)

    async def claim_it_first() -> None:
        await backend.begin_turn_once(tenant, keyed(second, session_id=None), claim_ttl_ms=CLAIM_MS)

    interfere(backend, scripts.BEGIN_TURN_ONCE, claim_it_first, 1)
    asked = keyed(first, session_id=conversation_id, holder="h")
    start = await backend.begin_turn_once(tenant, asked, claim_ttl_ms=CLAIM_MS)
    assert (start.running_response_id, start.lease) == (second.id, None)
    assert (await backend.describe_session(tenant, conversation_id)).last_fence == 0
    await backend.forget_key(tenant, "k", second.id)
    start = await backend.begin_turn_once(tenant, asked, claim_ttl_ms=CLAIM_MS)
    assert names_in(start.history.items) == ["b"]
    assert start.lease is not None
    told = await backend.begin_turn_once(tenant, keyed(second), claim_ttl_ms=CLAIM_MS)
    assert told.running_response_id == first.id


async def test_a_turn_ends_under_its_session_and_its_key_at_once(backend: RedisBackend, tenant: str) -> None:
    session_id = new_id()
    record = draft(tag=session_id, session_id=session_id)
    start = await backend.begin_turn_once(
        tenant, keyed(record, session_id=session_id, holder="h"), claim_ttl_ms=CLAIM_MS
    )
    assert start.lease is not None
    past = await backend.acquire_lease(tenant, "beside", holder="h", ttl_ms=1000)
    await backend.release_lease(tenant, past.fence)
    beside = await backend.acquire_lease(tenant, "beside", holder="h", ttl_ms=1000)
    with pytest.raises(StaleFence):
        stale = Write(record, Precondition(fence=past.fence))
        await backend.commit_turn_once(tenant, stale, start.lease.fence, key="k")
    write = Write(record, Precondition(fence=beside.fence))
    await backend.commit_turn_once(tenant, write, start.lease.fence, key="k")
    session = await backend.describe_session(tenant, session_id)
    assert (session.head_id, session.lease) == (record.id, None)
    with pytest.raises(IdempotencyMismatch) as caught:
        await backend.put_once(tenant, Write(draft()), key="k", fingerprint=OTHER)
    assert caught.value.facts["key"] == "k"


async def test_keys_are_refused_by_name_where_trees_are_spread(tenant: str) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    attempts: dict[str, Awaitable[object]] = {
        "BeginTurn": backend.begin_turn_once(tenant, keyed(draft()), claim_ttl_ms=CLAIM_MS),
        "CommitTurn": backend.commit_turn_once(tenant, Write(draft()), Fence("s", 1), key="k"),
        "Put": backend.put_once(tenant, Write(draft(), NO_PRECONDITION), key="k", fingerprint=FINGERPRINT),
        "AbortTurn": backend.forget_key(tenant, "k", draft().id),
    }
    for rpc, attempt in attempts.items():
        with pytest.raises(Unimplemented, match=rf"{rpc}\.idempotency_key on a Redis Cluster partitioned by tree"):
            await attempt
    await backend.close()
