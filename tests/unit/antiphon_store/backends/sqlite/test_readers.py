from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.readers import Readers
from antiphon_store.rows.backend import Durability


@pytest.fixture
async def readers(connection: sqlite3.Connection, path: Path) -> AsyncIterator[Readers]:
    readers = Readers([connect(path, Durability.PROCESS) for _ in range(2)])
    yield readers
    await readers.close()


def count(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM branch").fetchone()
    return int(number)


async def test_a_read_sees_what_was_committed_before(connection: sqlite3.Connection, readers: Readers) -> None:
    for number in range(5):
        assert await readers.run(count) == number
        connection.execute("INSERT INTO branch DEFAULT VALUES")


async def test_two_reads_run_side_by_side_and_off_the_loop(readers: Readers) -> None:
    barrier = threading.Barrier(2, timeout=5)

    def meet(connection: sqlite3.Connection) -> tuple[int, str]:
        barrier.wait()
        return id(connection), threading.current_thread().name

    (one, thread), (two, _) = await asyncio.gather(readers.run(meet), readers.run(meet))
    assert one != two
    assert thread.startswith("sqlite reader")


async def test_sqlites_errors_do_not_travel(readers: Readers) -> None:
    with pytest.raises(InternalError):
        await readers.run(lambda connection: connection.execute("SELECT * FROM nowhere"))
    assert await readers.run(count) == 0


async def test_closed_readers_are_unavailable(readers: Readers) -> None:
    await readers.close()
    with pytest.raises(StoreUnavailable):
        await readers.run(count)
