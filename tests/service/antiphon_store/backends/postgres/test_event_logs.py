from __future__ import annotations

import pytest

from antiphon_core.errors import InternalError, LogNotFound
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft

TTL_MS = 60_000
ID = draft().id


async def append(backend: PostgresBackend, position: int, frames: bytes = b"data: {}\n\n") -> int:
    event = EventAppend(ID, position, 2, frames, Checkpoint(position, (1, 2**32 - 1)))
    return await backend.append_events("t", event, fence=None, ttl_ms=TTL_MS)


async def test_a_page_ends_with_the_batch_that_fills_it(backend: PostgresBackend) -> None:
    for position in (0, 2, 4):
        await append(backend, position, b"x" * 100)
    for max_bytes, batches in ((1, 1), (100, 1), (101, 2), (1000, 3)):
        page = await backend.read_log("t", ID, position=1, max_bytes=max_bytes)
        assert [batch.first_sequence for batch in page.batches] == [0, 2, 4][:batches]
        assert page.next_position == 6
    assert (await backend.read_log("t", ID, position=6, max_bytes=9)).batches == ()


async def test_damage_is_an_error_that_names_the_response(backend: PostgresBackend, connection: Connection) -> None:
    await append(backend, 0)
    await connection.execute("UPDATE event_batch SET token_ids = set_byte(token_ids, 0, 9)")
    with pytest.raises(InternalError, match=ID):
        await backend.read_log("t", ID, position=0, max_bytes=9)


async def test_a_refused_first_append_leaves_no_row(backend: PostgresBackend, connection: Connection) -> None:
    with pytest.raises(Exception, match="3"):
        await append(backend, 3)
    assert await (await connection.execute("SELECT * FROM event_log")).fetchall() == []
    with pytest.raises(LogNotFound):
        await backend.read_log("t", ID, position=0, max_bytes=9)
