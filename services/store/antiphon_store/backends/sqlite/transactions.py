"""Runs atoms in transactions, off the event loop, in one thread for each of a few connections.

Calls that wait when a connection becomes free run as ONE transaction, with one flush of the disk (group commit). The
next calls gather meanwhile; no call waits for a timer. A read begins after it was called, so it sees every write that
was acknowledged before.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate
from antiphon_store.joint_calls import JointCalls, Limits

WRITES_TOGETHER = 256  # bounds how long the first of a transaction waits for the last
READS_TOGETHER = 16
CALLS_MAX = 10_000  # seconds of work; further calls are rejected

_Answer = TypeVar("_Answer")
Atom = Callable[[sqlite3.Connection], _Answer]
"""A part of a transaction. An error that it returns, and does not raise, means that it changed nothing."""
Outcomes = Sequence[Any]
"""The answers of atoms in their order, with an error for an atom that failed."""


class Transactions:
    """Runs atoms on connections of its own. `transact` runs a batch of atoms in one transaction."""

    def __init__(
        self,
        connections: Sequence[sqlite3.Connection],
        transact: Callable[[sqlite3.Connection, Sequence[Atom[Any]]], Outcomes],
        *,
        together: int,
        calls_max: int = CALLS_MAX,
    ) -> None:
        self._connections = connections
        self._transact = transact
        self._calls_max = calls_max
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        limits = Limits(together=together, together_bytes=0, runs=len(connections))
        self._calls: JointCalls[Atom[Any], Any] = JointCalls(self._run_together, limits)
        name = f"sqlite {transact.__name__}"
        self._threads = [threading.Thread(target=self._work, args=(each,), name=name) for each in connections]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    async def run(self, atom: Atom[_Answer]) -> _Answer:
        """Returns or raises as `atom` does, after its transaction is durable. If another atom fails, the transaction
        is undone and `atom` runs again. It runs even if its caller is cancelled. StoreUnavailable: closed, overloaded,
        or the transaction failed and nothing was written."""
        if self._is_closed:
            raise StoreUnavailable("The store is closed.")
        if self._calls.waiting_count >= self._calls_max:
            raise StoreUnavailable("The store is overloaded; try again later.")
        return await self._calls.run(atom)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Waits for running atoms, then closes the connections."""
        self._is_closed = True
        await self._calls.settle()
        for _ in self._threads:
            self._batches.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        for connection in self._connections:  # one by one: the last of a file removes the write-ahead log
            connection.close()

    async def _run_together(self, atoms: Sequence[Atom[Any]]) -> Outcomes:
        outcomes: asyncio.Future[Outcomes] = self._loop.create_future()
        self._batches.put((atoms, outcomes))
        return await outcomes

    def _work(self, connection: sqlite3.Connection) -> None:
        while (batch := self._batches.get()) is not None:
            outcomes = self._run(connection, batch[0])
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                self._loop.call_soon_threadsafe(_deliver, batch[1], outcomes)

    def _run(self, connection: sqlite3.Connection, atoms: Sequence[Atom[Any]]) -> Outcomes | Exception:
        """The outcomes of a transaction, or the error for which nothing was written."""
        try:
            return self._transact(connection, atoms)
        except Exception as error:  # noqa: BLE001 - the thread must serve the next calls after any error
            return translate_sqlite(error)
        finally:
            roll_back(connection)


_Batch = tuple[Sequence[Atom[Any]], asyncio.Future[Outcomes]]


def roll_back(connection: sqlite3.Connection) -> None:
    """Ends a transaction that is still open."""
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):  # the next BEGIN fails, and raises the reason
            connection.execute("ROLLBACK")


def _deliver(answer: asyncio.Future[Outcomes], outcomes: Outcomes | Exception) -> None:
    if answer.done():  # its caller was cancelled
        return
    if isinstance(outcomes, Exception):
        answer.set_exception(outcomes)
    else:
        answer.set_result(outcomes)


def translate_sqlite(error: Exception) -> Exception:
    return translate(error) if isinstance(error, sqlite3.Error) else error


def read(connection: sqlite3.Connection, atoms: Sequence[Atom[Any]]) -> Outcomes:
    """Runs atoms on one snapshot. The caller rolls back: nothing was written."""
    connection.execute("BEGIN")
    return [_outcome(atom, connection) for atom in atoms]


def _outcome(atom: Atom[Any], connection: sqlite3.Connection) -> Any:
    """The answer of an atom, or the error for its caller."""
    try:
        return atom(connection)
    except Exception as error:  # noqa: BLE001 - raised in the caller of this atom
        return translate_sqlite(error)


def write(connection: sqlite3.Connection, atoms: Sequence[Atom[Any]]) -> Outcomes:
    """Runs atoms as one transaction. If an atom raises, the transaction is undone and each atom runs in one of its own,
    so that a failing atom undoes only its own writes. Answers and errors are returned after COMMIT, because they may
    depend on the writes of another atom."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [atom(connection) for atom in atoms]
    except Exception:  # for the caller of one atom, who gets it from its own transaction
        if not connection.in_transaction or len(atoms) == 1:  # SQLite rolls back by itself when the disk is full
            raise
        roll_back(connection)
        return [write_alone(connection, atom) for atom in atoms]
    connection.execute("COMMIT")
    return outcomes


def write_alone(connection: sqlite3.Connection, atom: Atom[Any]) -> Any:
    """The answer of an atom in a transaction of its own, or its error."""
    try:
        return write(connection, [atom])[0]
    except Exception as error:  # noqa: BLE001 - raised in the caller of this atom
        roll_back(connection)
        return translate_sqlite(error)
