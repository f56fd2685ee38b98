"""What a write leaves in the tables, what it costs, and how it locks. What it answers: tests/contract/store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import LogClosed, PositionMismatch, ResponseNotFound, StaleFence
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Record
from antiphon_store.backends.base import LogEnd, Write
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft, turn_in

FRAME = b"data: {}\n\n"
ROUNDS = 10


def ending(record: Record, position: int = 0) -> LogEnd:
    return LogEnd(EventAppend(record.id, position, 1, FRAME, terminal=True), ttl_ms=60_000)


async def rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(statement)).fetchall()


async def test_a_turn_with_everything_is_two_round_trips(backend: PostgresBackend, statements: list[object]) -> None:
    for number in range(2):  # the second continues a head that was deleted
        record = draft(session_id="s", parent_id=None)
        start = await backend.begin_turn_once("t", keyed(record, number), claim_ttl_ms=60_000)
        assert start.lease is not None
        record = draft(session_id="s", parent_id=start.history.head_id)
        statements.clear()
        write = Write(record, log_end=ending(record), session_responses_max=9, item_ids=("a",))
        await backend.commit_turn_once("t", write, start.lease.fence, key=f"other {number}")
        assert len(statements) == 1
        await backend.remove("t", record.id, NO_PRECONDITION)


def keyed(record: Record, number: int) -> Any:
    return turn_in("s", idempotency_key=f"k{number}", fingerprint=b"f" * 32, response_id=record.id)


async def test_a_refused_write_leaves_no_log(backend: PostgresBackend, connection: Connection) -> None:
    orphan = draft(draft())
    with pytest.raises(ResponseNotFound):
        await backend.put("t", Write(orphan, log_end=ending(orphan)))
    record = draft()
    with pytest.raises(PositionMismatch):
        await backend.put("t", Write(record, log_end=ending(record, 3)))
    assert await rows(connection, "SELECT * FROM event_log") == []
    await backend.put("t", Write(record, log_end=ending(record)))
    done = Write(record, Precondition(version=1), log_end=ending(record, 1))
    with pytest.raises(LogClosed):
        await backend.put("t", done)
    assert await rows(connection, "SELECT closed FROM event_log") == [(True,)]


async def test_old_keys_go_a_few_at_a_time(
    timed: PostgresBackend, connection: Connection, elapse: Callable[[int], Awaitable[None]]
) -> None:
    for number in range(5):
        await timed.put_once("t", Write(draft()), key=f"old {number}", fingerprint=b"f" * 32)
    await elapse(limits.IDEMPOTENCY_MEMORY_MS)
    for number, left in enumerate((4, 3, 3, 4)):
        await timed.put_once("t", Write(draft()), key=f"ü\0 {number}", fingerprint=b"f" * 32)
        assert await rows(connection, "SELECT count(*) FROM idempotency_key") == [(left,)]


async def test_a_job_fence_counts_while_there_is_such_a_job(
    timed: PostgresBackend, elapse: Callable[[int], Awaitable[None]]
) -> None:
    lease = await timed.acquire_lease("t", "both", holder="h", ttl_ms=60_000)
    await timed.enqueue_job("t", JobDraft("both", "q", b"{}"), retention_ms=500)
    write = Write(draft(), Precondition(fence=lease.fence))
    await timed.cancel_job("t", "both")
    with pytest.raises(StaleFence):
        await timed.put("t", write)
    await elapse(500)
    await timed.put("t", write)


async def test_writers_with_two_fences_never_deadlock(
    backend: PostgresBackend, peer: PostgresBackend, conflicts: list[str]
) -> None:
    """A commit wants session and log, an append log and session; and of two sessions each may be the turn's."""
    fences = [(await backend.acquire_lease("t", name, holder="h", ttl_ms=60_000)).fence for name in ("a", "b")]

    async def end(store: PostgresBackend, turn: Fence, other: Fence) -> None:
        record = draft(session_id=turn.session_id)
        appends = [
            each.append_events("t", EventAppend(record.id, 0, 1, FRAME), fence=turn, ttl_ms=60_000)
            for each in (backend, peer)
        ]
        write = Write(record, Precondition(fence=other), log_end=ending(record, 1))
        *_, ended = await asyncio.gather(*appends, store.put("t", write), return_exceptions=True)
        assert not isinstance(ended, BaseException) or isinstance(ended, PositionMismatch)  # it came first

    for _ in range(ROUNDS):
        writers = [end(backend, *fences) for _ in range(4)] + [end(peer, *fences[::-1]) for _ in range(4)]
        await asyncio.gather(*writers)
    assert conflicts == []


async def test_forgetting_a_key_spares_what_is_bound(backend: PostgresBackend, connection: Connection) -> None:
    record = draft()
    await backend.begin_turn_once("t", keyed(record, 0), claim_ttl_ms=60_000)
    await backend.forget_key("t", "k0", draft().id)
    assert len(await rows(connection, "SELECT * FROM idempotency_key")) == 1
    await backend.commit_turn_once("t", Write(record), None, key="k0")
    await backend.forget_key("t", "k0", record.id)
    assert await rows(connection, "SELECT version FROM idempotency_key") == [(1,)]
