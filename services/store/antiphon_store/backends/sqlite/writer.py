"""The one thread that writes, and group commit.

Atoms that arrive in one pass of the event loop are queued together; the thread takes everything that is queued, runs it
as ONE transaction and waits for the disk once. Nobody waits for a timer: while one transaction is being made durable
the next one gathers. Each of several atoms runs in a savepoint of its own, so a refused one undoes nothing of its
neighbours; an atom that is alone needs none, because the transaction is its own. No answer, and no refusal either,
leaves before COMMIT returned: it may rest on what a neighbour wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate

BATCH_ATOMS_MAX = 256  # bounds how long the first of a batch waits for the last
QUEUE_ATOMS_MAX = 10_000  # seconds of work: past that, waiting longer helps nobody

_Answer = TypeVar("_Answer")
Atom = Callable[[sqlite3.Connection], _Answer]


@dataclass(frozen=True, slots=True)
class _Job:
    atom: Atom[Any]
    answer: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: Exception | None = None


class Writer:
    """Runs atoms that write, in order, on a connection that nobody else uses. Made inside a running event loop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._arrived: list[_Job] = []
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sqlite writer", daemon=True)
        self._thread.start()

    async def run(self, atom: Atom[_Answer]) -> _Answer:
        """What `atom` returns or raises, once the transaction it was part of is durable. It runs even when the caller
        stops waiting. StoreUnavailable: closed, overloaded, or the transaction failed and nothing was written."""
        self.require_open()
        if self._queue.qsize() + len(self._arrived) >= QUEUE_ATOMS_MAX:
            raise StoreUnavailable("The store is overloaded; try again later.")
        if not self._arrived:
            self._loop.call_soon(self._hand_over)
        answer: asyncio.Future[_Answer] = self._loop.create_future()
        self._arrived.append(_Job(atom, answer))
        return await answer

    def require_open(self) -> None:
        """StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")

    async def close(self) -> None:
        """Lets queued atoms end, then closes the connection."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        """Queues the atoms of one pass of the event loop. Queued as they arrive, the first one would be a transaction
        of its own, and the thread would contend with the loop for the interpreter while the others are being made."""
        arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._queue.put(job)

    def _work(self) -> None:
        closing = False
        while not closing:
            batch, closing = self._next_batch()
            if batch:
                self._deliver(batch, self._transact(batch))
        self._connection.close()

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """Waits for one job and takes all others that are queued; True when the writer was closed behind them."""
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if len(batch) == BATCH_ATOMS_MAX:
                return batch, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _transact(self, batch: Sequence[_Job]) -> list[_Outcome]:
        """Runs the batch as one transaction. When that fails nothing of it was written, and everyone is told."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if len(batch) == 1:
                outcomes = [_Outcome(value=batch[0].atom(self._connection))]
            else:
                outcomes = [self._attempt(job.atom) for job in batch]
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on: others wait for it
            self._roll_back()
            return [_failure(error) for _ in batch]
        return outcomes

    def _attempt(self, atom: Atom[Any]) -> _Outcome:
        """Runs one atom in a savepoint. Raises when the whole transaction is lost."""
        self._connection.execute("SAVEPOINT atom")
        try:
            outcome = _Outcome(value=atom(self._connection))
        except Exception as error:  # whatever it is belongs to the caller of this atom alone
            if not self._connection.in_transaction:  # SQLite gave it up by itself, as it does when the disk is full
                raise
            self._connection.execute("ROLLBACK TO atom")
            outcome = _failure(error)
        self._connection.execute("RELEASE atom")
        return outcome

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the next BEGIN fails and says why
                self._connection.execute("ROLLBACK")

    def _deliver(self, batch: Sequence[_Job], outcomes: Sequence[_Outcome]) -> None:
        """Wakes the event loop once for the whole batch."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_resolve, batch, outcomes)


def _failure(error: Exception) -> _Outcome:
    return _Outcome(error=translate(error) if isinstance(error, sqlite3.Error) else error)


def _resolve(batch: Sequence[_Job], outcomes: Sequence[_Outcome]) -> None:
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.answer.done():  # its caller gave up
            continue
        if outcome.error is not None:
            job.answer.set_exception(outcome.error)
        else:
            job.answer.set_result(outcome.value)
