"""Rows as stored in Redis. tests/contract/store/test_rows.py tests programs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_core.ports.jobs import JobDraft
from antiphon_store.backends.redis import keys
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.backend import ANNOUNCE_AGAIN_S, RedisRows
from antiphon_store.backends.redis.link import Link
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    NODE_LISTS,
    Applied,
    Chain,
    Change,
    Condition,
    Delete,
    DeleteBelow,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Ref,
    Rejection,
    Row,
    Set,
    Span,
    Unfile,
    named_node,
)
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.redis_servers import NO_FILES, redis_server, shared_cluster, shared_redis

SESSION = Ref(Kind.SESSION, "conv")
NODE = {
    **dict.fromkeys(("parent", "expires")),
    **dict.fromkeys(("size", "version", "input_bytes", "items_crc", "body_crc"), 1),
    "session": "conv",
    "status": "completed",
    "deleted": 0,
}
NEVER = Guard(SESSION, Condition.IS, "head", "nothing")


def rows_at(url: str, *, durability: Durability = Durability.MEMORY) -> RedisRows:
    scheme, _, rest = url.partition("://")
    return RedisRows(parse_address(scheme, rest), durability=durability, clock=ManualClock())


async def filed(rows: RedisRows, partition: Partition) -> list[tuple[str, int]]:
    _, entries = await rows.page(partition, Index.FOREIGN, "item", Span(9))
    return [(each.id, each.at) for each in entries]


async def test_deleted_rows_and_entries_leave_no_keys(server: redis.Redis, tenant: str) -> None:
    rows, partition = rows_at(shared_redis().url), Partition(tenant, "tree")
    await rows.open()
    changes: list[Change] = [Put(Ref(Kind.BATCH, f"log/{number}"), {}, b"items", b"body") for number in range(3)]
    changes += [Put(SESSION, {"a": 1}, b"i"), File(Index.FOREIGN, "i", "x")]
    await rows.transact(partition, Program(changes=changes))
    assert len(list(server.scan_iter(f"{keys.root(partition)}:*", count=10_000))) == 6
    gone: list[Change] = [DeleteBelow(Kind.BATCH, "log/"), Delete(SESSION), Unfile(Index.FOREIGN, "i", "x")]
    await rows.transact(partition, Program(changes=gone))
    assert not list(server.scan_iter(f"antiphon:{{{tenant}:*", count=10_000))
    await rows.close()


@pytest.mark.parametrize("index", sorted(NODE_LISTS))
async def test_nodes_that_an_older_release_wrote_or_deleted_are_listed_as_they_are(
    server: redis.Redis, tenant: str, index: Index
) -> None:
    """A release without the indexes of all nodes runs beside this one: it files and removes no entries in them."""
    rows, partition = rows_at(shared_redis().url), Partition(tenant, "tree")
    await rows.open()
    names = [f"n{number:04d}" for number in range(2_500)]  # more than one call lists
    line = [Grow(each, names[0] if number else None, NODE) for number, each in enumerate(names)]
    await rows.transact(partition, Program(changes=line))
    lists = [keys.entries(partition, each, "") for each in NODE_LISTS]

    async def listed() -> list[str]:
        _, found = await rows.page(partition, index, "", Span(10_000), payload=Payload.NONE)
        assert all(each.row is not None for each in found)
        return [named_node(each.id) for each in found]

    assert await listed() == names
    server.delete(*lists)  # an older release wrote all nodes
    assert await listed() == names
    for key in lists:  # it wrote one, and deleted others
        server.zremrangebyrank(key, 7, 7)
    assert await listed() == names
    server.hdel(f"{keys.root(partition)}:node", *names[10:12])
    assert await listed() == names[:10] + names[12:]
    for key in lists:
        server.zremrangebyrank(key, 0, 0)
    server.hdel(f"{keys.root(partition)}:node", *names[12:14])
    assert await listed() == names[:10] + names[14:]
    for key in lists:
        server.zremrangebyrank(key, 0, 0)
    server.hdel(f"{keys.root(partition)}:node", names[14])  # as many entries as nodes
    assert await listed() == names[:10] + names[15:]
    await rows.close()


async def test_a_tenant_is_announced_again_after_a_while(server: redis.Redis, tenant: str) -> None:
    rows, ends = rows_at(shared_redis().url), Program(changes=[File(Index.ENDS, "", "session/s", 1)])
    await rows.open()
    await rows.transact(Partition(tenant, "tree"), ends)
    assert tenant in await rows.tenants()
    server.srem(keys.TENANTS, tenant)
    await rows.transact(Partition(tenant, "tree"), ends)
    assert tenant not in await rows.tenants()  # announced a moment ago
    rows._announced_s[tenant] -= ANNOUNCE_AGAIN_S
    await rows.transact(Partition(tenant, "tree"), ends)
    assert tenant in await rows.tenants()
    await rows.close()


async def test_a_refused_program_leaves_an_entry_on_a_cluster_alone(tenant: str) -> None:
    partition = Partition(tenant, "tree")
    program = Program([NEVER], [File(Index.FOREIGN, "item", "resp", 7), Unfile(Index.FOREIGN, "item", "other")])
    for url, left in ((shared_redis().url, []), (shared_cluster().url, [("resp", 7)])):
        rows = rows_at(url)
        await rows.open()
        await rows.transact(partition, Program(changes=[File(Index.FOREIGN, "item", "other", 9)]))
        assert isinstance(await rows.transact(partition, program), Rejection)
        assert await filed(rows, partition) == [*left, ("other", 9)]
        assert isinstance(await rows.transact(partition, program._replace(guards=())), Applied)
        assert await filed(rows, partition) == [("resp", 7)]
        await rows.close()


async def test_a_chain_that_lost_an_ancestor_is_damaged(tenant: str) -> None:
    rows, partition = rows_at(shared_redis().url), Partition(tenant, "tree")
    await rows.open()
    await rows.transact(partition, Program(changes=[Grow("one", None, NODE)]))
    await rows.transact(partition, Program(changes=[Grow("two", "one", {**NODE, "parent": "one"})]))
    await rows.transact(partition, Program(changes=[Delete(Ref(Kind.NODE, "one"))]))
    with pytest.raises(InternalError):
        await rows.transact(partition, Program(reads=[Chain("two", Payload.ALL, 9, 9)]))
    await rows.close()


async def test_a_chain_of_many_nodes_comes_in_order(tenant: str) -> None:
    rows, partition = rows_at(shared_redis().url), Partition(tenant, "tree")
    await rows.open()
    names = [f"resp_{number}" for number in range(600)]  # more than one script reads with one command
    parents = dict(zip(names, [None, *names[:-1]], strict=True))
    grown = [Grow(name, parent, {**NODE, "parent": parent}, name.encode()) for name, parent in parents.items()]
    await rows.transact(partition, Program(changes=grown))
    outcome = await rows.transact(partition, Program(reads=[Chain(names[-1], Payload.ITEMS, 600, 2**20)]))
    assert isinstance(outcome, Applied)
    assert outcome.answers[0].ids == names
    assert outcome.answers[0].items == [name.encode() for name in names]
    await rows.close()


async def test_a_server_out_of_memory_accepts_only_small_programs_and_reads() -> None:
    with redis_server(NO_FILES) as server, server.client() as client:
        rows, partition = rows_at(server.url), Partition("t", "tree")
        await rows.open()
        await rows.transact(partition, Program(changes=[Put(SESSION, {"holder": "a"}, b"items")]))
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="out of memory"):
            await rows.transact(partition, Program(changes=[Put(SESSION, {}, b"more")]))
        with pytest.raises(StoreUnavailable, match="out of memory"):
            await rows.ready()
        await rows.transact(partition, Program(changes=[Set(SESSION, {"holder": ""})]))
        read = await rows.transact(partition, Program(reads=[Get(SESSION, Payload.ITEMS)]))
        assert isinstance(read, Applied)
        assert list(read.answers) == [Row({"holder": "", "v": 2}, b"items")]
        client.config_set("maxmemory", 0)
        await rows.close()


async def test_a_backend_that_is_not_open_is_unavailable(tenant: str) -> None:
    rows = rows_at(shared_redis().url)
    await rows.close()
    with pytest.raises(StoreUnavailable, match="not open"):
        await rows.transact(Partition(tenant, "tree"), Program())
    await rows.open()
    await rows.close()
    for call in (rows.ready, rows.tenants):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call()


def test_quorum_durability_on_a_cluster_is_rejected() -> None:
    with pytest.raises(SettingsError, match="quorum"):
        rows_at("redis+cluster://one:1", durability=Durability.QUORUM)


async def test_a_server_without_appendonly_is_rejected_for_disk_durability() -> None:
    rows = rows_at(shared_redis().url, durability=Durability.DISK)
    with pytest.raises(StoreUnavailable, match="appendonly must be yes"):
        await rows.open()


@pytest.mark.parametrize(("payload", "fits"), [(Payload.ITEMS, 10), (Payload.ALL, 1)])  # [xxxxxxxx]; the node's `size`
async def test_a_chain_is_rejected_only_above_its_byte_bound(tenant: str, payload: Payload, fits: int) -> None:
    rows, partition = rows_at(shared_redis().url), Partition(tenant, "tree")
    await rows.open()
    await rows.transact(partition, Program(changes=[Grow("resp", None, NODE, b"x" * 8)]))
    for most, expected in ((fits, ""), (fits - 1, "bytes")):
        outcome = await rows.transact(partition, Program(reads=[Chain("resp", payload, 1, most)]))
        assert (outcome.too_long if isinstance(outcome, Rejection) else "") == expected
    await rows.close()


async def test_a_job_is_claimable_after_a_late_removal_of_its_ticket(tenant: str) -> None:
    """On a cluster, a claimer takes a ticket before its job is stored, and removes the ticket after that."""
    url = shared_cluster().url
    enqueuer, claimer = rows_at(url), rows_at(url)
    for each in (enqueuer, claimer):
        await each.open()
    is_filed, is_taken, is_there = asyncio.Event(), asyncio.Event(), asyncio.Event()
    apply, write_entries = enqueuer._apply, claimer._write_entries

    async def apply_late(partition: Partition, program: Program) -> Outcome:
        is_filed.set()
        await is_taken.wait()
        return await apply(partition, program)

    async def remove_late(entries: Any, **options: bool) -> Any:
        if entries and not options:
            is_taken.set()
            await is_there.wait()
        return await write_entries(entries, **options)

    enqueuer._apply, claimer._write_entries = apply_late, remove_late  # type: ignore[method-assign]
    job, store = JobDraft(draft().id, "q", b"{}"), StoreService(enqueuer)
    enqueuing = asyncio.create_task(store.enqueue_job(tenant, job))
    await is_filed.wait()
    claiming = asyncio.create_task(StoreService(claimer).claim_job(tenant, ["q"], holder="h", lease_ttl_ms=60_000))
    await enqueuing
    is_there.set()
    claimed = await claiming or await store.claim_job(tenant, ["q"], holder="h", lease_ttl_ms=60_000)
    assert claimed is not None
    assert claimed.id == job.id
    for each in (enqueuer, claimer):
        await each.close()


async def test_a_start_that_fails_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Link] = []
    monkeypatch.setattr(RedisRows, "_check", _fails)
    monkeypatch.setattr(Link, "close", lambda link: _noted(closed, link))
    with pytest.raises(InternalError):
        await rows_at(shared_redis().url).open()
    assert len(closed) == 1


async def _fails(*_arguments: object) -> int:
    raise InternalError("Redis does not know CONFIG.")


async def _noted(closed: list[Link], link: Link) -> None:
    closed.append(link)
