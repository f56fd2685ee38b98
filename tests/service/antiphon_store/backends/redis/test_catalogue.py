"""Lists and look-ups that are more than one script reads. What they mean: the suites of lineage."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, LimitExceeded
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import NO_PRECONDITION, Order, Precondition, Record
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.roles.lineage import Position
from antiphon_store.testing.subject import content, draft
from tests.service.antiphon_store.backends.redis.conftest import Shrink
from tests.support.redis_servers import backend_at, shared_cluster

PASSED_OVER = 520  # more than a script looks at, where it looks at 512
MANY_BYTES = 10**9
TOGETHER = 20


async def put_many(backend: RedisBackend, tenant: str, count: int, *, ttl_ms: int | None = None) -> list[Record]:
    """Responses of one session, each with the item `same`."""
    items = dumps([{"id": "same", "type": "message"}])
    records = [draft(session_id="s", input_items=items) for _ in range(count)]
    writes = [Write(record, ttl_ms=ttl_ms, item_ids=("same",)) for record in records]
    for first in range(0, count, TOGETHER):
        await asyncio.gather(*(backend.put(tenant, write) for write in writes[first : first + TOGETHER]))
    return records


async def list_ids(backend: RedisBackend, tenant: str, order: Order, limit: int) -> tuple[list[str], bool]:
    page = await backend.session_records(tenant, "s", after=None, limit=limit, order=order, max_bytes=MANY_BYTES)
    return [record.id for record in page.values], page.has_more


async def test_what_expired_is_passed_over_however_much_it_is(
    backend: RedisBackend, tenant: str, clock: ManualClock, shrink: Shrink
) -> None:
    shrink("SESSION_RECORDS", LOOKS_PER_SCRIPT=512)
    shrink("FIND_ITEMS", LOOKS_PER_SCRIPT=512)
    (first,) = await put_many(backend, tenant, 1)
    clock.advance(1)
    await put_many(backend, tenant, PASSED_OVER, ttl_ms=1)
    clock.advance(1)
    last = await put_many(backend, tenant, 2)
    ordered = [first.id, *sorted(record.id for record in last)]
    assert await list_ids(backend, tenant, Order.ASCENDING, 3) == (ordered, False)
    assert await list_ids(backend, tenant, Order.DESCENDING, 3) == (ordered[::-1], False)
    assert await list_ids(backend, tenant, Order.ASCENDING, 2) == (ordered[:2], True)
    await backend.remove(tenant, first.id, NO_PRECONDITION)
    (found,) = await backend.find_items(tenant, ["same"], max_bytes=MANY_BYTES)
    assert found.response_id == ordered[1]


async def test_a_page_goes_on_behind_a_response_that_is_gone(
    backend: RedisBackend, tenant: str, clock: ManualClock
) -> None:
    records = []
    for _ in range(4):
        records += await put_many(backend, tenant, 1)
        clock.advance(0.001)
    middle = await backend.fetch(tenant, records[1].id)
    await backend.remove(tenant, middle.id, NO_PRECONDITION)
    end = Position(middle.depth, middle.created_at_ms, middle.id)
    for order, left in ((Order.ASCENDING, records[2:]), (Order.DESCENDING, records[:1])):
        page = await backend.session_records(tenant, "s", after=end, limit=9, order=order, max_bytes=MANY_BYTES)
        assert [content(record) for record in page.values] == [content(record) for record in left]


async def test_items_come_from_as_many_scripts_as_it_takes(
    backend: RedisBackend, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"item {number}" for number in range(5)]
    for name in names:
        await backend.put(tenant, Write(draft(input_items=dumps([{"id": name}])), item_ids=(name,)))
    calls = 0
    run = backend._run

    async def counting(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        return await run(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "_run", counting)
    found = await backend.find_items(tenant, [*names, "nobody's"], max_bytes=10_000)
    assert ([item.id for item in found], calls) == (names, 1)
    with pytest.raises(LimitExceeded) as caught:
        await backend.find_items(tenant, names, max_bytes=5)
    assert caught.value.field == "item_ids"
    calls = 0
    size = len(dumps({"id": names[0]}))
    found = await backend.find_items(tenant, names, max_bytes=size * len(names))
    assert [item.id for item in found] == names
    assert 1 < calls <= len(names)


async def test_several_items_of_one_response_are_read_once(backend: RedisBackend, tenant: str) -> None:
    record = draft(input_items=dumps([{"id": "a"}, {"id": "b"}]))
    await backend.put(tenant, Write(record, item_ids=("a", "b")))
    keys = [backend._keys.tenant_root(tenant, "")]
    metas, items, owners, _stopped = await backend._run(scripts.FIND_ITEMS, tenant, keys, [10**6, "", "b", "c", "a"])
    assert (len(metas), len(items), owners) == (1, 1, [1, 0, 1])


async def test_an_item_that_is_not_where_it_is_filed_is_an_error(backend: RedisBackend, tenant: str) -> None:
    record = draft()
    await backend.put(tenant, Write(record, item_ids=("elsewhere",)))
    with pytest.raises(InternalError) as caught:
        await backend.find_items(tenant, ["elsewhere"], max_bytes=10**6)
    assert caught.value.facts["id"] == record.id


async def test_damaged_items_are_not_handed_out(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    record = draft(input_items=dumps([{"id": "a"}]))
    await backend.put(tenant, Write(record, item_ids=("a",)))
    server.hset(f"{backend._keys.tree_root(tenant, record.id)}:items", "1:0", '{"id":"a","forged":true}')
    with pytest.raises(InternalError, match="damaged"):
        await backend.find_items(tenant, ["a"], max_bytes=10**6)


async def test_a_batch_spans_the_trees_of_a_spread_tenant(tenant: str) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    records = [draft() for _ in range(6)]
    records += [draft(records[0], text="x" * 1000)]
    for record in records:
        await backend.put(tenant, Write(record))
    asked = [records[6].id, *(record.id for record in records[:6]), draft().id]
    found = await backend.fetch_many(tenant, asked, max_bytes=MANY_BYTES)
    assert [record.id for record in found] == asked[:-1]
    with pytest.raises(LimitExceeded):
        await backend.fetch_many(tenant, asked, max_bytes=1000)
    await backend.close()


async def test_a_replaced_response_is_listed_once(backend: RedisBackend, tenant: str) -> None:
    (record,) = await put_many(backend, tenant, 1)
    changed = replace(record, output_items=b"[]")
    await backend.put(tenant, Write(changed, Precondition(version=1), item_ids=("same",)))
    assert await list_ids(backend, tenant, Order.ASCENDING, 9) == ([record.id], False)


async def test_a_list_and_its_limit_lie_with_their_tree_where_trees_are_spread(tenant: str, clock: ManualClock) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree", clock=clock)
    await backend.open()
    for _ in range(4):  # over several masters
        root = draft()
        session_id = root.id.replace("resp_", "conv_")
        line = [draft(tag=session_id, session_id=session_id)]
        line += [draft(line[0], session_id=session_id)]
        for record in line:
            await backend.put(tenant, Write(record, ttl_ms=1000, session_responses_max=2))
        with pytest.raises(LimitExceeded, match="has made 2 responses"):
            await backend.put(tenant, Write(draft(line[0], session_id=session_id), session_responses_max=2))
        page = await backend.session_records(
            tenant, session_id, after=None, limit=9, order=Order.DESCENDING, max_bytes=MANY_BYTES
        )
        assert [record.id for record in page.values] == [line[1].id, line[0].id]
        clock.advance(1)
        fresh = draft(tag=session_id, session_id=session_id)
        await backend.put(tenant, Write(fresh, session_responses_max=1))
    await backend.close()
