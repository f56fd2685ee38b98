"""The backend as an operator meets it, and what it costs. What it does as a store: tests/contract/store."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_core.ports.store import NO_PRECONDITION, TurnRequest
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft, turn_in


async def nodes(connection: Connection) -> tuple[int, int]:
    """How many rows there are of responses and of branches."""
    row = await (
        await connection.execute("SELECT (SELECT count(*) FROM node), (SELECT count(*) FROM branch)")
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


@pytest.mark.parametrize("depth", [1, 10, 100, 1000])
async def test_a_chain_is_one_round_trip(backend: PostgresBackend, statements: list[object], depth: int) -> None:
    line = [draft()]
    await backend.put("t", Write(line[0]))
    for _ in range(depth - 1):
        line.append(draft(line[-1]))
        await backend.put("t", Write(line[-1]))
    statements.clear()
    chain = await backend.ancestry("t", line[-1].id, max_depth=1000, max_bytes=2**30)
    assert [each.id for each in chain] == [each.id for each in line]
    assert len(statements) == 1
    start = await backend.begin_turn("t", TurnRequest(previous_response_id=line[-1].id))
    assert start.history.depth == depth
    assert len(statements) == 2


async def test_a_turn_is_two_round_trips(backend: PostgresBackend, statements: list[object]) -> None:
    start = await backend.begin_turn("t", turn_in("s"))
    assert start.lease is not None
    await backend.commit_turn("t", Write(draft(session_id="s")), start.lease.fence)
    assert len(statements) == 2


async def test_what_nothing_refers_to_leaves_no_row(backend: PostgresBackend, connection: Connection) -> None:
    root = draft()
    children = [draft(root), draft(root)]
    for record in (root, *children):
        await backend.put("t", Write(record))
    assert await nodes(connection) == (3, 2)
    for record, left in ((root, (3, 2)), (children[1], (2, 1)), (children[0], (0, 0))):
        await backend.remove("t", record.id, NO_PRECONDITION)
        assert await nodes(connection) == left


async def test_a_deleted_head_goes_when_the_session_moves_on(backend: PostgresBackend, connection: Connection) -> None:
    for _ in range(2):
        lease = await backend.acquire_lease("t", "s", holder="a", ttl_ms=60_000)
        record = draft(session_id="s")
        await backend.commit_turn("t", Write(record), lease.fence)
        assert await nodes(connection) == (1, 1)
        await backend.remove("t", record.id, NO_PRECONDITION)
        assert await nodes(connection) == (1, 1)


async def test_damage_is_an_error_that_names_the_response(backend: PostgresBackend, connection: Connection) -> None:
    record = draft()
    await backend.put("t", Write(record))
    await connection.execute("UPDATE node SET items = set_byte(items, 3, 0)")
    for read in (
        backend.fetch("t", record.id),
        backend.ancestry("t", record.id, max_depth=1, max_bytes=9999),
        backend.begin_turn("t", TurnRequest(previous_response_id=record.id)),
    ):
        with pytest.raises(InternalError, match=record.id):
            await read


async def test_the_servers_clock_stamps(backend: PostgresBackend, connection: Connection) -> None:
    stamp = await backend.put("t", Write(draft(), ttl_ms=1000))
    row = await (await connection.execute("SELECT now_ms_v1(NULL)")).fetchone()
    assert row is not None
    assert 0 <= row[0] - stamp.created_at_ms < 60_000
    assert stamp.expires_at_ms == stamp.created_at_ms + 1000


async def test_a_test_may_have_a_clock_of_its_own(url: str, schema: str, clock: ManualClock) -> None:
    backend = PostgresBackend(url, database_schema=schema, clock=clock)
    await backend.open()
    assert (await backend.put("t", Write(draft()))).created_at_ms == clock.now_ms()
    await backend.close()


async def test_holders_may_be_any_text(backend: PostgresBackend) -> None:
    lease = await backend.acquire_lease("t", "s", holder="ü\0'", ttl_ms=60_000)
    assert (await backend.describe_session("t", "s")).lease == lease


async def test_without_migrating_an_older_schema_is_refused(url: str, schema: str) -> None:
    backend = PostgresBackend(url, database_schema=schema, migrate=False)
    with pytest.raises(StoreUnavailable, match="antiphon store migrate"):
        await backend.open()
    migrating = PostgresBackend(url, database_schema=schema)
    await migrating.open()
    await migrating.close()
    await backend.open()
    await backend.close()


async def test_a_removed_table_makes_it_unready(backend: PostgresBackend, connection: Connection) -> None:
    await connection.execute("DROP TABLE node CASCADE")
    with pytest.raises(StoreUnavailable, match="tables are not there"):
        await backend.ready()


async def test_a_database_that_only_reads_makes_it_unready(backend: PostgresBackend) -> None:
    await backend._connections.run(lambda each: each.execute("SET default_transaction_read_only = on"))
    with pytest.raises(StoreUnavailable, match="read-only"):
        await backend.ready()
    with pytest.raises(StoreUnavailable, match="read-only"):
        await backend.put("t", Write(draft()))


def test_only_what_a_server_can_promise_is_accepted(url: str) -> None:
    with pytest.raises(SettingsError, match="memory"):
        PostgresBackend(url, durability=Durability.MEMORY)
