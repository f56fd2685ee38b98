from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import dumps
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import LogFrames, Record, TurnCommit
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft, new_session_id, turn_in, untagged_session_id

LENGTH = 40
SESSION = new_session_id()


async def test_every_statement_fits_the_schema(connection: Connection) -> None:
    statements = [statement for statement in QUERIES.values() if not statement.startswith("CREATE")]
    assert statements
    for statement in statements:
        parameters = dict.fromkeys(re.findall(r"%\((\w+)\)s", statement))
        await connection.execute(f"EXPLAIN {statement}", parameters)


async def test_no_operation_scans_a_table(connection: Connection, backend: StoreService) -> None:
    """No scan with statistics of few rows, and none inside functions."""
    parent = None
    for number in range(LENGTH):
        record = draft(parent, tag=SESSION, session_id=SESSION)
        await backend.put("t", record)
        await backend.acquire_session("t", new_session_id(), holder="h", ttl_ms=1000)
        await use_keys_and_conversations(backend)
        parent = record if number % 3 else parent or record  # every third record gets a sibling
    assert parent is not None
    await connection.execute("ANALYZE")
    assert await scans_of(backend, lambda: use_turns(backend, parent)) == {}
    assert await scans_of(backend, lambda: use_keys_and_conversations(backend)) == {}
    assert await scans_of(backend, backend.tenants) == {}
    await asyncio.sleep(0.01)
    assert await scans_of(backend, lambda: backend.sweep("t", limit=9)) == {}


@pytest.mark.parametrize("has_statistics", [False, True])
async def test_no_operation_reads_all_that_a_tenant_has(
    connection: Connection, backend: StoreService, has_statistics: bool
) -> None:
    """Reading a whole index is no scan of a table, but as slow. A connection plans a statement at its first use, when a
    young store has few rows."""
    root = draft(tag=SESSION)
    deeds: list[Callable[[], Awaitable[object]]] = [
        lambda: use_turns(backend, root),
        lambda: use_keys_and_conversations(backend),
        lambda: backend.fork("t", ForkSource(SESSION), new_session_id=untagged_session_id()),
        lambda: backend.batch_get("t", [root.id, draft().id]),
        lambda: backend.resolve_items("t", ["a", "b"]),
        backend.tenants,
        lambda: backend.sweep("t", limit=100),
    ]
    await backend.put("t", root)
    for deed in deeds:
        await deed()
    for statement in MANY:
        await connection.execute(statement, [MANY_ROWS])
    if has_statistics:
        await connection.execute("ANALYZE")
    for deed in deeds:
        assert await reads_of(backend, deed) == {}


@pytest.mark.parametrize("has_statistics", [False, True])
async def test_neither_a_turn_nor_a_page_reads_a_whole_tree(
    connection: Connection, backend: StoreService, has_statistics: bool
) -> None:
    root = draft(tag=SESSION)
    child = draft(root)
    for each in (root, child):
        await backend.put("t", each)
    deeds: list[Callable[[], Awaitable[object]]] = [
        lambda: use_turns(backend, child),
        lambda: backend.tree("t", child.id, from_root=True, max_nodes=5),
        lambda: backend.leaves("t", root.id, limit=5),
        lambda: backend.children("t", root.id, limit=5),
        lambda: backend.siblings("t", child.id, limit=5),
    ]
    for deed in deeds:
        await deed()
    for statement in MANY_CHILDREN:
        await connection.execute(statement, {"parent": child.id, "start": child.id[:-8] + "ffff", "count": MANY_ROWS})
    if has_statistics:
        await connection.execute("ANALYZE")
    backend.children_counted_max = backend.part_nodes_max = backend.read_nodes_max = 100
    assert [await reads_of(backend, deed) for deed in deeds] == [{}] * len(deeds)


# Many children of one response.
MANY_CHILDREN = [
    "INSERT INTO stored_row (tenant, tree, kind, id, place, size, fields, items, body) "
    "SELECT tenant, tree, kind, %(start)s || to_char(n, 'FM0000'), (1000 + n) * 4294967296 + 2, size, "
    "(fields::jsonb || jsonb_build_object('parent', %(parent)s::text, 'depth', 2))::text, items, body "
    "FROM stored_row CROSS JOIN generate_series(1, %(count)s) AS n WHERE id = %(parent)s",
    "INSERT INTO entry (tenant, tree, index, key, id, at) "
    "SELECT tenant, tree, 'children', %(parent)s, id, created FROM stored_row WHERE place & 4294967295 = 2 "
    "ON CONFLICT DO NOTHING",
]

# Many rows of every kind of one tenant, none of them expired.
MANY_ROWS = 2000
TOO_MANY = 500
MANY = [
    "INSERT INTO stored_row (tenant, tree, kind, id, fields) "
    "SELECT 't', 'tree-' || n, kind, kind || n, '{}' FROM generate_series(1, %s) AS n, "
    "unnest(ARRAY['node', 'session', 'job', 'log', 'conversation', 'key']) AS kind",
    "INSERT INTO entry (tenant, tree, index, key, id, at) "
    "SELECT 't', '', index, '', 'id-' || n, 1::bigint << 60 FROM generate_series(1, %s) AS n, "
    "unnest(ARRAY['ends', 'queue', 'holder', 'item']) AS index",
    "INSERT INTO entry (tenant, tree, index, key, id, at) "
    "SELECT 't', 'tree-' || n, index, 'key', 'id', n FROM generate_series(1, %s) AS n, "
    "unnest(ARRAY['children', 'made']) AS index",
]


def connections_of(backend: StoreService) -> Connections:
    assert isinstance(backend._rows, PostgresRows)
    return backend._rows._connections


async def reads_of(backend: StoreService, deed: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """The tables from which `deed` reads too many rows, with the number of rows."""

    async def watched(each: Connection) -> dict[str, int]:
        async with each.transaction():
            before = await rows_read(each)
            connections_of(backend).run = lambda atom, **_: atom(each)  # type: ignore[method-assign]
            try:
                await deed()
            finally:
                del connections_of(backend).run
            after = await rows_read(each)
            return {table: after[table] - before[table] for table in after if after[table] - before[table] >= TOO_MANY}

    return await connections_of(backend).run(watched)


async def rows_read(connection: Connection) -> Counter[str]:
    """Of each table, rows that this connection has read so far."""
    statement = (
        "SELECT relname::text, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
    )
    return Counter({str(table): int(rows) for table, rows in await (await connection.execute(statement)).fetchall()})


async def use_turns(backend: StoreService, parent: Record) -> None:
    await backend.chain("t", parent.id)
    start = await backend.begin_turn("t", turn_in(SESSION))
    assert start.lease is not None
    child = draft(parent, session_id=SESSION)
    await backend.commit_turn("t", TurnCommit(child, start.lease.fence))
    await backend.put("t", draft(parent))
    await backend.get("t", child.id)
    await backend.begin_turn("t", turn_in(SESSION))
    await backend.describe_session("t", SESSION)
    await backend.delete("t", child.id)


async def use_keys_and_conversations(backend: StoreService) -> None:
    key, fingerprint = new_session_id(), b"f" * 32
    conversation_id = new_conversation_id(RandomIds())
    items = dumps([{"id": "a"}])
    await backend.create_conversation("t", conversation_id=conversation_id, items=items, ttl_ms=60_000)
    await backend.create_conversation("t", conversation_id=new_conversation_id(RandomIds()), items=items)
    await backend.add_conversation_items("t", conversation_id, dumps([{"id": "b"}]))
    await backend.list_conversation_items("t", conversation_id)
    await backend.delete_conversation_item("t", conversation_id, "a")
    await backend.update_conversation("t", conversation_id, b"{}")
    await backend.get_conversation("t", conversation_id)
    record = draft(tag=conversation_id, session_id=conversation_id)
    request = turn_in(conversation_id, idempotency_key=key, fingerprint=fingerprint, response_id=record.id)
    start = await backend.begin_turn("t", request)
    assert start.lease is not None
    append = EventAppend(record.id, 0, 1, b"data: {}\n\n")
    await backend.append_events("t", append, fence=start.lease.fence)
    end = LogFrames(1, b"data: {}\n\n")
    commit = TurnCommit(record, start.lease.fence, ttl_ms=1, idempotency_key=key, log_frames=end)
    await StoreService(backend._rows, StoreSettings(max_session_responses=9)).commit_turn("t", commit)
    await backend.put("t", draft(), idempotency_key=f"{key}-2", ttl_ms=1)
    await backend.abort_turn("t", None, idempotency_key=key, response_id=record.id)
    await backend.enqueue_job("t", JobDraft(record.id, "q", b"{}"))
    await backend.cancel_job("t", record.id)
    await backend.delete_conversation("t", conversation_id)


async def scans_of(backend: StoreService, deeds: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """The scans that `deeds` make, run one after the other in one transaction."""

    async def watched(each: Connection) -> dict[str, int]:
        async with each.transaction():
            connections_of(backend).run = lambda atom, **_: atom(each)  # type: ignore[method-assign]
            try:
                await deeds()
            finally:
                del connections_of(backend).run
            return await count_scans(each)

    return await connections_of(backend).run(watched)


async def count_scans(connection: Connection) -> dict[str, int]:
    """Tables that were scanned in this transaction."""
    statement = "SELECT relname::text, seq_scan FROM pg_stat_xact_user_tables WHERE seq_scan > 0"
    return {str(table): int(scans) for table, scans in await (await connection.execute(statement)).fetchall()}
