"""The data as they lie in Redis, and the server's clock. What the backend does as a store: tests/contract/store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import (
    ChainTooLong,
    InternalError,
    InvalidRequest,
    ResponseNotFound,
    StoreUnavailable,
    Unimplemented,
)
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Order, Precondition, Record, TurnRequest
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.testing.lineage import joined, size_bytes
from antiphon_store.testing.subject import content, draft, turn_in
from tests.service.antiphon_store.backends.redis.conftest import Shrink
from tests.support.redis_servers import NO_FILES, backend_at, redis_server, shared_cluster, shared_redis

HOUR_MS = 3600 * 1000


def keys_of(server: redis.Redis, tenant: str) -> list[str]:
    return sorted(server.scan_iter(f"antiphon:{{{tenant}*", count=1000))


async def put_line(backend: RedisBackend, tenant: str, length: int, *, ttl_ms: int | None = None) -> list[Record]:
    line: list[Record] = []
    for _ in range(length):
        line.append(draft(line[-1] if line else None))
        await backend.put(tenant, Write(line[-1], ttl_ms=ttl_ms))
    return line


async def test_a_tree_is_a_handful_of_keys_whatever_its_size(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    line = await put_line(backend, tenant, 30)
    await backend.put(tenant, Write(draft(line[3])))
    root = f"antiphon:{{{tenant}}}:{line[0].id[5:21]}"
    assert keys_of(server, tenant) == [
        f"{root}:{name}" for name in ("body", "branches", "forks", "ids", "items", "meta")
    ]
    assert server.hget(f"{root}:ids", line[29].id) == "1:29"


async def test_nothing_stays_of_a_deleted_tree(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    line = await put_line(backend, tenant, 5, ttl_ms=HOUR_MS)
    fork = draft(line[2])
    await backend.put(tenant, Write(fork))
    for record in (*line, fork):
        await backend.remove(tenant, record.id, NO_PRECONDITION)
    assert keys_of(server, tenant) == []


async def test_all_that_is_stored_of_a_tree_can_be_found_again(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    record = draft(session_id="s")
    write = Write(record, ttl_ms=HOUR_MS, item_ids=("one", "t w o"))
    await backend.put(tenant, write)
    root = f"antiphon:{{{tenant}}}:"
    indexes = {f"{root}:{name}" for name in ("ends", "made:s", "item:one", "item:t%20w%20o")}
    assert indexes <= set(keys_of(server, tenant))
    assert {server.pttl(key) for key in keys_of(server, tenant)} == {-1}
    assert {server.object("encoding", f"{root}:{name}") for name in ("made:s", "item:one")} == {"listpack"}
    moved = replace(record, session_id=None)
    await backend.put(tenant, Write(moved, Precondition(version=1), item_ids=("one",)))
    assert indexes & set(keys_of(server, tenant)) == {f"{root}:item:one"}
    await backend.remove(tenant, record.id, NO_PRECONDITION)
    assert keys_of(server, tenant) == []


async def test_a_session_may_have_any_name_that_a_session_may_have(backend: RedisBackend, tenant: str) -> None:
    for session_id in ("-", "_", "0"):
        record = draft(session_id=session_id)
        start = await backend.begin_turn(tenant, turn_in(session_id))
        assert start.lease is not None
        await backend.commit_turn(tenant, Write(record), start.lease.fence)
        assert (await backend.fetch(tenant, record.id)).session_id == session_id
        page = await backend.session_records(
            tenant, session_id, after=None, limit=9, order=Order.ASCENDING, max_bytes=10**6
        )
        assert [each.id for each in page.values] == [record.id]
        assert (await backend.fork(tenant, ForkSource(session_id, None), f"fork{session_id}")).head_id == record.id


async def test_a_deleted_ancestor_is_in_no_list(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    root = draft(session_id="s")
    await backend.put(tenant, Write(root, item_ids=("one",)))
    await backend.put(tenant, Write(draft(root)))
    await backend.remove(tenant, root.id, NO_PRECONDITION)
    assert not [key for key in keys_of(server, tenant) if ":made:" in key or ":item:" in key]


async def test_one_call_gives_back_no_more_than_it_has_time_for(
    backend: RedisBackend, server: redis.Redis, tenant: str, shrink: Shrink
) -> None:
    line = await put_line(backend, tenant, 12)
    for record in line[:-1]:
        await backend.remove(tenant, record.id, NO_PRECONDITION)
    shrink("REMOVE", DROPPED_PER_SCRIPT=7)
    await backend.remove(tenant, line[-1].id, NO_PRECONDITION)
    assert server.hlen(f"antiphon:{{{tenant}}}:{line[0].id[5:21]}:ids") == 5
    assert await backend.sweep(tenant, limit=4) == Sweeping(4, sum(map(size_bytes, line[1:5])), has_more=True)
    assert await backend.sweep(tenant, limit=4) == Sweeping(1, size_bytes(line[0]))
    assert keys_of(server, tenant) == []


async def test_an_expired_id_with_much_below_it_waits_for_the_sweeper(
    backend: RedisBackend, tenant: str, clock: ManualClock, shrink: Shrink
) -> None:
    line = await put_line(backend, tenant, 6, ttl_ms=1000)
    clock.advance(1)
    shrink("PUT", NODES_BELOW_MAX=5)
    with pytest.raises(StoreUnavailable, match="swept first"):
        await backend.put(tenant, Write(line[0]))
    await backend.sweep(tenant, limit=9)
    assert (await backend.put(tenant, Write(line[0]))).version == 1
    assert (await backend.put(tenant, Write(line[1]))).depth == 1


async def spread_servers() -> AsyncIterator[tuple[RedisBackend, list[redis.Redis]]]:
    """A cluster that is partitioned by tree, and a client of each of its masters."""
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    with ExitStack() as stack:
        yield backend, [stack.enter_context(master.client()) for master in shared_cluster().masters]
    await backend.close()


spread = pytest.fixture(spread_servers)


def lifetimes_ms(servers: list[redis.Redis], tenant: str) -> list[int]:
    return [server.pttl(key) for server in servers for key in keys_of(server, tenant)]


async def test_the_servers_reclaim_a_tree_of_a_spread_tenant(
    spread: tuple[RedisBackend, list[redis.Redis]], tenant: str
) -> None:
    backend, servers = spread
    root = draft()
    for record in (root, draft(root, session_id=root.id.replace("resp_", "conv_"))):
        await backend.put(tenant, Write(record, ttl_ms=HOUR_MS, item_ids=("one",)))
    ends = lifetimes_ms(servers, tenant)
    assert len(ends) == 6  # the tree's, and the list of its session
    assert all(2 * HOUR_MS - 60_000 < end <= 3 * HOUR_MS for end in ends)


async def test_a_tree_with_a_response_for_ever_stays(
    spread: tuple[RedisBackend, list[redis.Redis]], tenant: str
) -> None:
    backend, servers = spread
    (root,) = await put_line(backend, tenant, 1, ttl_ms=HOUR_MS)
    await backend.put(tenant, Write(draft(root)))
    await backend.put(tenant, Write(draft(root), ttl_ms=HOUR_MS))
    assert set(lifetimes_ms(servers, tenant)) == {-1}


async def test_a_spread_tenant_refuses_by_name_what_needs_all_of_it(
    spread: tuple[RedisBackend, list[redis.Redis]], tenant: str
) -> None:
    backend, _servers = spread
    for rpc, attempt in (
        ("ResolveItems", backend.find_items(tenant, ["a"], max_bytes=1)),
        ("Sweep", backend.sweep(tenant, limit=1)),
    ):
        with pytest.raises(Unimplemented, match=f"{rpc} on a Redis Cluster partitioned by tree"):
            await attempt


async def test_damage_is_an_error_that_names_the_response(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    line = await put_line(backend, tenant, 2)
    root = f"antiphon:{{{tenant}}}:{line[0].id[5:21]}"
    server.hset(f"{root}:items", "1:0", '{"id":"forged"}')
    for attempt in (
        backend.fetch(tenant, line[0].id),
        backend.ancestry(tenant, line[1].id, max_depth=9, max_bytes=9999),
        backend.begin_turn(tenant, TurnRequest(previous_response_id=line[1].id)),
    ):
        with pytest.raises(InternalError) as caught:
            await attempt
        assert caught.value.facts["id"] == line[0].id


async def test_a_chain_of_a_thousand_is_read_at_once(backend: RedisBackend, tenant: str) -> None:
    line = await put_line(backend, tenant, 600)
    for number in range(20):  # forks on the way, at every depth
        line = line[: 580 + number]
        line.append(draft(line[-1]))
        await backend.put(tenant, Write(line[-1]))
    start = await backend.begin_turn(tenant, TurnRequest(previous_response_id=line[-1].id))
    assert start.history.items == joined(line)
    with pytest.raises(ChainTooLong):
        await backend.begin_turn(tenant, TurnRequest(previous_response_id=line[-1].id, max_depth=len(line) - 1))


async def test_the_servers_clock_decides(tenant: str) -> None:
    backend = backend_at(shared_redis().url)
    await backend.open()
    before_ms = time.time_ns() // 1_000_000
    record = draft()
    stamp = await backend.put(tenant, Write(record, ttl_ms=150))
    lease = await backend.acquire_lease(tenant, "s", holder="h", ttl_ms=150)
    assert abs(stamp.created_at_ms - before_ms) < 60_000
    await asyncio.sleep(0.2)
    with pytest.raises(ResponseNotFound):
        await backend.fetch(tenant, record.id)
    assert not await backend.release_lease(tenant, lease.fence)
    assert (await backend.acquire_lease(tenant, "s", holder="other", ttl_ms=150)).fence.token == 2
    await backend.close()


async def test_on_a_cluster_a_conversation_and_its_responses_share_their_tag(tenant: str, clock: ManualClock) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree", clock=clock)
    await backend.open()
    for _ in range(8):  # over several masters
        root = draft()
        session_id = root.id.replace("resp_", "conv_")
        start = await backend.begin_turn(tenant, turn_in(session_id))
        assert start.lease is not None
        in_session = draft(tag=session_id, session_id=session_id)
        await backend.commit_turn(tenant, Write(in_session), start.lease.fence)
        assert (await backend.describe_session(tenant, session_id)).head_id == in_session.id
        assert content(await backend.fetch(tenant, in_session.id)) == content(in_session)
    await backend.close()


async def test_on_a_cluster_a_session_of_another_name_is_a_lock_only(tenant: str) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    lease = await backend.acquire_lease(tenant, "chat-1", holder="h", ttl_ms=60_000)
    assert (await backend.renew_lease(tenant, lease.fence, ttl_ms=60_000)).fence == lease.fence
    record = draft(session_id="chat-1")
    condition = Precondition(fence=lease.fence)
    attempts = {
        "session_id": backend.begin_turn(tenant, turn_in("chat-1")),
        "fence.session_id": backend.commit_turn(tenant, Write(record), Fence("chat-1", 1)),
        "precondition.fence.session_id": backend.put(tenant, Write(draft(), condition)),
        "record.session_id": backend.put(tenant, Write(record)),
    }
    for field, attempt in attempts.items():
        with pytest.raises(InvalidRequest, match="partitioned by tenant") as caught:
            await attempt
        assert caught.value.field == field
    await backend.close()


async def test_a_server_that_forgets_is_refused() -> None:
    with redis_server(NO_FILES) as server:
        for durability in (Durability.PROCESS, Durability.DISK):
            with pytest.raises(StoreUnavailable, match="appendonly must be yes"):
                await backend_at(server.url, durability=durability).open()
        with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
            await backend_at(server.url, durability=Durability.QUORUM).open()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await backend_at("redis://127.0.0.1:1").open()
    with pytest.raises(StoreUnavailable):
        await backend_at("redis+cluster://127.0.0.1:1").open()
    with pytest.raises(StoreUnavailable):
        await backend_at("redis+sentinel://127.0.0.1:1/main").open()


def test_a_cluster_has_no_quorum() -> None:
    with pytest.raises(SettingsError, match="'disk' is"):
        backend_at("redis+cluster://a", durability=Durability.QUORUM)
