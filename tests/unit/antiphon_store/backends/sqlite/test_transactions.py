"""Group commit: one transaction for many atoms, the effect of a failing atom on the others, and concurrent reads."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import AlreadyExists, InternalError, StoreUnavailable
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.transactions import WRITES_TOGETHER, Atom, Transactions, read, write
from antiphon_store.rows.backend import Durability

INSERT = "INSERT INTO tree (tenant, tag) VALUES ('t', hex(randomblob(16)))"


class Gate:
    """Holds the writer inside an atom until the test has queued what is to be the next batch."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.entered = threading.Event()

    def __call__(self, _connection: sqlite3.Connection) -> None:
        self.entered.set()
        assert self._open.wait(30)

    def open(self) -> None:
        self._open.set()


class Watched(sqlite3.Connection):
    """A connection that counts commits, and fails in commit number `broken_commit`."""

    commits = 0
    broken_commit: int | None = None

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            self.commits += 1
            if self.commits == self.broken_commit:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error
        return super().execute(sql, *parameters)


@pytest.fixture
def watched(connection: sqlite3.Connection, path: Path) -> Watched:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Watched)


def make_writer(connection: sqlite3.Connection) -> Transactions:
    return Transactions([connection], write, together=WRITES_TOGETHER)


@pytest.fixture
async def writer(watched: Watched) -> AsyncIterator[Transactions]:
    writer = make_writer(watched)
    yield writer
    await writer.close()


def insert(connection: sqlite3.Connection) -> int:
    """An atom that writes a row and returns the number of rows."""
    connection.execute(INSERT)
    (number,) = connection.execute("SELECT count(*) FROM tree").fetchone()
    return int(number)


def refuse(connection: sqlite3.Connection) -> int:
    insert(connection)
    raise AlreadyExists.of("x")


def misuse(connection: sqlite3.Connection) -> int:
    insert(connection)
    connection.execute("INSERT INTO nowhere VALUES (1)")
    return 0


async def together(writer: Transactions, *atoms: Atom[int]) -> list[int | BaseException]:
    """The outcomes of atoms that are queued while the writer is busy, and hence are one batch."""
    gate = Gate()
    first = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    others = [asyncio.create_task(writer.run(atom)) for atom in atoms]
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # atoms are queued one pass of the loop after they arrive
    gate.open()
    await first
    return await asyncio.gather(*others, return_exceptions=True)


async def test_atoms_queued_together_share_one_commit(writer: Transactions, watched: Watched) -> None:
    assert await together(writer, *[insert] * 64) == list(range(1, 65))
    assert watched.commits == 2  # the gate's own, and one for all


async def test_atoms_of_one_pass_of_the_loop_share_one_commit_behind_the_first(
    writer: Transactions, watched: Watched
) -> None:
    assert sorted(await asyncio.gather(*(writer.run(insert) for _ in range(64)))) == list(range(1, 65))
    assert watched.commits == 2  # the first alone, and one for all others


async def test_a_queue_longer_than_the_limit_takes_several_commits(writer: Transactions, watched: Watched) -> None:
    await together(writer, *[insert] * (2 * WRITES_TOGETHER + 1))
    assert watched.commits == 4


async def test_a_refused_atom_undoes_nothing_of_its_neighbours(
    writer: Transactions, connection: sqlite3.Connection
) -> None:
    one, refusal, two = await together(writer, insert, refuse, insert)
    assert (one, two) == (1, 2)
    assert isinstance(refusal, AlreadyExists)
    assert insert(connection) == 3


@pytest.mark.parametrize(("atom", "error"), [(refuse, AlreadyExists), (misuse, InternalError)])
async def test_atom_alone_that_fails_writes_nothing(
    writer: Transactions, connection: sqlite3.Connection, atom: Atom[int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await writer.run(atom)
    assert await writer.run(insert) == 1
    assert insert(connection) == 2


async def test_an_atom_with_a_bug_fails_alone(writer: Transactions) -> None:
    one, failure, two = await together(writer, insert, misuse, insert)
    assert (one, two) == (1, 2)
    assert isinstance(failure, InternalError)


async def test_an_atom_that_loses_the_transaction_fails_the_batch(writer: Transactions) -> None:
    def lose(connection: sqlite3.Connection) -> int:
        connection.execute("ROLLBACK")
        raise RuntimeError("lost")

    outcomes = await together(writer, insert, lose, insert)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError] * 3
    assert await writer.run(insert) == 1


async def test_a_failed_commit_fails_every_atom_of_the_transaction(
    writer: Transactions, watched: Watched, connection: sqlite3.Connection
) -> None:
    """A refused atom fails as well, because the rows that made the store refuse it were not written."""
    watched.broken_commit = 2
    outcomes = await together(writer, insert, lambda _connection: AlreadyExists.of("x"), insert)  # type: ignore[arg-type,return-value]
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    assert await writer.run(insert) == 1
    assert insert(connection) == 2


async def test_a_full_disk_fails_the_batch_and_not_the_writer(
    writer: Transactions, watched: Watched, connection: sqlite3.Connection
) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE filler (bytes BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(10000000))")

    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100").fetchone())
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await writer.run(fill)
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    await writer.run(fill)


async def test_a_locked_file_is_unavailable(path: Path, connection: sqlite3.Connection) -> None:
    short = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    writer = make_writer(short)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process"):
        await writer.run(insert)
    connection.execute("COMMIT")
    assert await writer.run(insert) == 1
    await writer.close()


async def test_an_atom_runs_even_when_its_caller_gave_up(writer: Transactions) -> None:
    gate = Gate()
    first = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    second = asyncio.create_task(writer.run(insert))
    await asyncio.sleep(0)
    second.cancel()
    gate.open()
    await first
    assert await writer.run(insert) == 2


async def test_atoms_beyond_the_queue_limit_are_rejected(watched: Watched) -> None:
    writer = Transactions([watched], write, together=WRITES_TOGETHER, calls_max=3)
    outcomes = await together(writer, *[insert] * 5)
    assert outcomes[:3] == [1, 2, 3]
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[3:])
    await writer.close()


async def test_closing_runs_queued_atoms_and_rejects_new_ones(writer: Transactions) -> None:
    gate = Gate()
    first = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    second = asyncio.create_task(writer.run(insert))
    await asyncio.sleep(0)
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await writer.run(insert)
    gate.open()
    await first
    assert await second == 1
    await closing


async def test_closing_waits_for_an_atom_whose_caller_gave_up(writer: Transactions, watched: Watched) -> None:
    gate = Gate()
    caller = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    caller.cancel()
    await asyncio.wait([caller])
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    gate.open()
    await closing
    assert watched.commits == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        watched.execute("SELECT 1")


async def test_a_writer_that_waits_for_a_lock_does_not_block_the_event_loop(
    path: Path, connection: sqlite3.Connection
) -> None:
    writer = make_writer(connect(path, Durability.PROCESS))
    connection.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(writer.run(insert))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not writing.done()
    connection.execute("COMMIT")
    assert await asyncio.wait_for(writing, 30) == 1
    await writer.close()


@pytest.fixture
async def readers(connection: sqlite3.Connection, path: Path) -> AsyncIterator[Transactions]:
    readers = Transactions([connect(path, Durability.PROCESS) for _ in range(2)], read, together=16)
    yield readers
    await readers.close()


def count(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM tree").fetchone()
    return int(number)


async def test_a_read_sees_what_was_committed_before(connection: sqlite3.Connection, readers: Transactions) -> None:
    for number in range(5):
        assert await readers.run(count) == number
        connection.execute(INSERT)


async def test_two_reads_run_side_by_side_and_off_the_loop(readers: Transactions) -> None:
    barrier = threading.Barrier(2, timeout=5)

    def meet(connection: sqlite3.Connection) -> tuple[int, str]:
        barrier.wait()
        return id(connection), threading.current_thread().name

    (one, thread), (two, _) = await asyncio.gather(readers.run(meet), readers.run(meet))
    assert one != two
    assert thread.startswith("sqlite read")


async def test_sqlite_errors_of_reads_become_internal_errors(readers: Transactions) -> None:
    with pytest.raises(InternalError):
        await readers.run(lambda connection: connection.execute("SELECT * FROM nowhere"))
    assert await readers.run(count) == 0


async def test_closed_readers_are_unavailable(readers: Transactions) -> None:
    await readers.close()
    with pytest.raises(StoreUnavailable):
        await readers.run(count)
