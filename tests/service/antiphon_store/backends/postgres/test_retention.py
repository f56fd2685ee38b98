"""What a sweep leaves in the tables, and that it stands in nobody's way. What it answers: tests/contract/store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import dumps
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import NO_PRECONDITION, Record
from antiphon_store.backends.base import LogEnd, Write
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.retention import ATOM_RECORDS_MAX
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft, turn_in

TTL_MS = 500
TABLES = ("node", "branch", "item", "event_log", "event_batch", "conversation", "removed_item")

Elapse = Callable[[int], Awaitable[None]]


async def counts(connection: Connection) -> dict[str, int]:
    """The tables that have rows, and how many."""
    found = {}
    for table in TABLES:
        ((found[table],),) = await (await connection.execute(f"SELECT count(*) FROM {table}")).fetchall()
    return {table: rows for table, rows in found.items() if rows}


async def put_line(backend: PostgresBackend, length: int, ttl_ms: int | None = TTL_MS) -> list[Record]:
    line: list[Record] = []
    for _ in range(length):
        line.append(draft(line[-1] if line else None))
        await backend.put("t", Write(line[-1], ttl_ms=ttl_ms, item_ids=("a",)))
    return line


async def test_a_sweep_that_ends_below_a_deleted_response_is_gone_on_with(
    timed: PostgresBackend, connection: Connection, elapse: Elapse
) -> None:
    """Although it is not expired, and nothing else would look at it again."""
    line = await put_line(timed, 2, ttl_ms=None)
    child = draft(line[1])
    await timed.put("t", Write(child, ttl_ms=TTL_MS))
    for record in reversed(line):
        await timed.remove("t", record.id, NO_PRECONDITION)
    await elapse(TTL_MS)
    for has_more in (True, True, False):
        swept = await timed.sweep("t", limit=1)
        assert (swept.records, swept.has_more) == (1, has_more)
    assert await counts(connection) == {}


async def test_a_deleted_head_is_kept_for_its_session(
    timed: PostgresBackend, connection: Connection, elapse: Elapse
) -> None:
    lease = await timed.acquire_lease("t", "s", holder="h", ttl_ms=60_000)
    head = draft(session_id="s")
    await timed.commit_turn("t", Write(head), lease.fence)
    await timed.put("t", Write(draft(head), ttl_ms=TTL_MS))
    await timed.remove("t", head.id, NO_PRECONDITION)
    await elapse(TTL_MS)
    assert (await timed.sweep("t", limit=1)).records == 1
    assert await timed.sweep("t", limit=9) == Sweeping()
    assert (await timed.describe_session("t", "s")).head_id == head.id


async def test_forks_are_let_go_of_from_their_ends(
    timed: PostgresBackend, connection: Connection, elapse: Elapse
) -> None:
    root, second = await put_line(timed, 2)
    for _ in range(3):
        branch = draft(root)
        await timed.put("t", Write(branch, ttl_ms=TTL_MS))
        await timed.put("t", Write(draft(branch), ttl_ms=TTL_MS))
    await timed.put("t", Write(draft(second)))
    await elapse(TTL_MS)
    swept = await timed.sweep("t", limit=100)
    assert (swept.records, swept.has_more) == (6, False)
    assert await counts(connection) == {"node": 3, "branch": 1, "item": 2}


async def test_an_expired_conversation_lets_go_of_a_response_that_only_it_kept(
    timed: PostgresBackend, connection: Connection, elapse: Elapse
) -> None:
    conversation_id = new_conversation_id(RandomIds())
    first = Addition(dumps([{"id": "a"}]), "digest", "salt")
    await timed.create_conversation("t", Founding(conversation_id, b"{}", "o", "i", first, TTL_MS))
    await timed.remove_item("t", conversation_id, "a")
    start = await timed.begin_turn("t", turn_in(conversation_id))
    assert start.lease is not None
    record = draft(tag=conversation_id, parent_id=start.history.head_id, session_id=conversation_id)
    await timed.commit_turn("t", Write(record), start.lease.fence)
    await timed.remove("t", record.id, NO_PRECONDITION)
    assert await timed.sweep("t", limit=9) == Sweeping()
    await elapse(TTL_MS)
    swept = await timed.sweep("t", limit=1)
    assert (swept.records, swept.size_bytes, swept.has_more) == (1, 2, True)
    assert (await timed.sweep("t", limit=9)).records == 2
    assert await counts(connection) == {}


async def test_what_another_session_goes_on_from_stays(timed: PostgresBackend, elapse: Elapse) -> None:
    conversation_id = new_conversation_id(RandomIds())
    await timed.create_conversation("t", Founding(conversation_id, b"{}", "o", "i", ttl_ms=TTL_MS))
    record = draft(tag=conversation_id, session_id=conversation_id)
    for session_id in (conversation_id, "other"):
        lease = await timed.acquire_lease("t", session_id, holder="h", ttl_ms=60_000)
        await timed.commit_turn("t", Write(record), lease.fence)
    await timed.remove("t", record.id, NO_PRECONDITION)
    await elapse(TTL_MS)
    assert await timed.sweep("t", limit=9) == Sweeping(1, 2)
    assert (await timed.describe_session("t", "other")).head_id == record.id
    assert (await timed.begin_turn("t", turn_in("other", holder="h"))).history.depth == 1


async def test_one_atom_does_so_much_and_no_more(timed: PostgresBackend, elapse: Elapse) -> None:
    await put_line(timed, ATOM_RECORDS_MAX + 1)
    await elapse(TTL_MS)
    assert (await timed.sweep("t", limit=10_000)).records == ATOM_RECORDS_MAX
    last = await timed.sweep("t", limit=10_000)
    assert (last.records, last.has_more) == (1, False)


async def test_it_waits_for_nobody(timed: PostgresBackend, connection: Connection, elapse: Elapse) -> None:
    """What another transaction holds is left for the next sweep."""
    (held,) = await put_line(timed, 1)
    await put_line(timed, 1)
    for record in (held, draft()):
        await timed.append_events("t", EventAppend(record.id, 0, 1, b"data: {}\n\n"), fence=None, ttl_ms=TTL_MS)
    conversation_ids = [new_conversation_id(RandomIds()) for _ in range(2)]
    for conversation_id in conversation_ids:
        await timed.create_conversation("t", Founding(conversation_id, b"{}", "o", "i", ttl_ms=TTL_MS))
    await elapse(TTL_MS)
    async with connection.transaction():
        await connection.execute("SELECT lock_trees_v1('t', ARRAY[%s], false)", [held.id])
        await connection.execute("SELECT FROM event_log WHERE response_id = %s FOR UPDATE", [held.id])
        await connection.execute("SELECT FROM session WHERE id = %s FOR UPDATE", [conversation_ids[0]])
        swept = await timed.sweep("t", limit=100)
        assert (swept.records, swept.has_more) == (3, True)
    swept = await timed.sweep("t", limit=100)
    assert (swept.records, swept.has_more) == (3, False)


async def test_tenants_are_those_who_may_have_something_to_sweep(backend: PostgresBackend) -> None:
    assert await backend.tenants() == []
    for tenant in ("b", "a", "b"):
        await backend.put(tenant, Write(draft(), ttl_ms=TTL_MS))
    await backend.put("for ever", Write(draft()))
    await backend.append_events("log", EventAppend(draft().id, 0, 1, b"x"), fence=None, ttl_ms=TTL_MS)
    await backend.create_conversation("talk", Founding(new_conversation_id(RandomIds()), b"{}", "o", "i", ttl_ms=1))
    assert await backend.tenants() == ["a", "b", "log", "talk"]


async def test_sweepers_and_writers_do_not_stand_in_each_others_way(
    backend: PostgresBackend, peer: PostgresBackend, connection: Connection, conflicts: list[str]
) -> None:
    """Everything lives for some milliseconds, while two replicas sweep without a pause."""
    roots = await put_line(backend, 3, ttl_ms=None)
    is_over = asyncio.Event()

    async def keep_sweeping(store: PostgresBackend) -> int:
        swept = 0
        while not is_over.is_set():
            swept += (await store.sweep("t", limit=20)).records
        return swept

    async def write(number: int) -> None:
        dice, store = random.Random(number), (backend, peer)[number % 2]
        for step in range(25):
            try:
                await act(store, dice, f"{number % 3}", roots, key=f"{number % 4}-{step}")
            except StoreUnavailable:
                raise
            except AntiphonError:
                continue  # refused by a rule: others are quicker, or time is over

    sweepers = [asyncio.create_task(keep_sweeping(store)) for store in (backend, peer)]
    await asyncio.gather(*map(write, range(10)))
    is_over.set()
    swept = sum(await asyncio.gather(*sweepers))
    assert swept > 0
    assert conflicts == []
    await asyncio.sleep(0.1)
    while (await backend.sweep("t", limit=1000)).has_more:
        pass
    left = await counts(connection)
    assert (left["node"], left.get("event_log"), left.get("conversation")) == (3, None, None)


async def act(store: PostgresBackend, dice: random.Random, name: str, roots: list[Record], *, key: str) -> None:
    """One writer's step: a turn with everything, an addition, a deletion."""
    conversation_id = f"conv_{name * 48}"
    ttl_ms = dice.randrange(1, 40)
    await store.create_conversation("t", Founding(conversation_id, b"{}", "o", "i", ttl_ms=ttl_ms))
    match dice.randrange(4):
        case 0:
            ids = dumps([{"id": str(dice.random())}])
            await store.add_items("t", conversation_id, Addition(ids, "digest", ids.decode()))
        case 1:
            record = draft(dice.choice(roots), session_id=f"session-{name}")
            end = LogEnd(EventAppend(record.id, 0, 1, b"data: {}\n\n", terminal=True), ttl_ms)
            await store.put_once("t", Write(record, ttl_ms=ttl_ms, log_end=end), key=key, fingerprint=b"f" * 32)
            await store.remove("t", record.id, NO_PRECONDITION)
        case _:
            request = turn_in(conversation_id, holder=str(dice.random()), lease_ttl_ms=ttl_ms)
            start = await store.begin_turn("t", request)
            assert start.lease is not None
            record = draft(tag=conversation_id, parent_id=start.history.head_id, session_id=conversation_id)
            end = LogEnd(EventAppend(record.id, 0, 1, b"data: {}\n\n", terminal=True), ttl_ms)
            write = Write(record, ttl_ms=ttl_ms, log_end=end, session_responses_max=5)
            await store.commit_turn_once("t", write, start.lease.fence, key=key)
