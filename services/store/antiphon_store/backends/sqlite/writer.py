"""The one thread that writes, and group commit.

Atoms are queued; the thread takes everything that is queued, runs it as ONE transaction and waits for the disk once.
Nobody waits for a timer: while one transaction is being made durable the next one gathers. When an atom raises, the
whole transaction is undone and runs again with each atom in a savepoint of its own, so that it undoes nothing of its
neighbours. No answer, and no refusal either, leaves before COMMIT returned: it may rest on what a neighbour wrote.
Where the disk is full, atoms run one by one, each in a transaction of its own, in the room of the `Reserve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from antiphon_store.backends.sqlite.batches import Atom, Call, CallQueue, Outcome, failure
from antiphon_store.backends.sqlite.reserve import Reserve, Room, is_full

BATCH_ATOMS_MAX = 256  # bounds how long the first of a batch waits for the last

_Answer = TypeVar("_Answer")


class Writer:
    """Runs atoms that write, in order, on a connection that nobody else uses. Made inside a running event loop."""

    def __init__(self, connection: sqlite3.Connection, reserve: Reserve) -> None:
        self._connection = connection
        self._reserve = reserve
        self._calls = CallQueue(batch_max=BATCH_ATOMS_MAX)
        self._thread = threading.Thread(target=self._work, name="sqlite writer", daemon=True)
        self._thread.start()

    def run(self, atom: Atom[_Answer]) -> Coroutine[Any, Any, _Answer]:
        """Returns or raises as `atom` does, once the transaction it was part of is durable. It may run twice, the first
        time in vain, and it runs even when the caller stops waiting. StoreUnavailable: closed, overloaded, or the
        transaction failed and nothing was written."""
        return self._calls.run(atom)

    def require_open(self) -> None:
        """StoreUnavailable after `close`."""
        self._calls.require_open()

    async def close(self) -> None:
        """Lets queued atoms end, then closes the connection."""
        self._calls.close()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (batch := self._calls.next_batch()) is not None:
            while len(batch) < BATCH_ATOMS_MAX and (more := self._calls.more()):
                batch += more
            self._calls.deliver(batch, self._transact(batch))
        self._connection.close()

    def _transact(self, batch: Sequence[Call]) -> list[Outcome]:
        """Runs the batch as one transaction, or in the reserve. When a transaction fails nothing of it was written, and
        everyone is told."""
        if self._reserve.room is not Room.ON_DISK:
            return self._transact_in_reserve(batch)
        try:
            return self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on: others wait for it
            self._roll_back()
            return self._transact_in_reserve(batch) if is_full(error) else [failure(error) for _ in batch]

    def _commit(self, batch: Sequence[Call]) -> list[Outcome]:
        outcomes = self._run_all(batch)
        self._connection.execute("COMMIT")
        return outcomes

    def _transact_in_reserve(self, batch: Sequence[Call]) -> list[Outcome]:
        with self._reserve.at_hand(self._connection):
            return [self._transact_alone(call) for call in batch]

    def _transact_alone(self, call: Call, *, has_lent: bool = False) -> Outcome:
        try:
            return self._commit([call])[0]
        except Exception as error:  # noqa: BLE001 - it belongs to this call
            self._roll_back()
            if has_lent or not is_full(error):
                return failure(error)
        self._reserve.lend()
        return self._transact_alone(call, has_lent=True)

    def _run_all(self, batch: Sequence[Call]) -> list[Outcome]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            return [Outcome(call.atom(connection)) for call in batch]
        except Exception:  # it belongs to the caller of one atom, who is told by the next attempt
            if not connection.in_transaction:  # SQLite gave it up by itself, as it does when the disk is full
                raise
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        return [self._attempt(call.atom) for call in batch]

    def _attempt(self, atom: Atom[object]) -> Outcome:
        """Runs one atom in a savepoint. Raises when the whole transaction is lost."""
        self._connection.execute("SAVEPOINT atom")
        try:
            outcome = Outcome(atom(self._connection))
        except Exception as error:  # whatever it is belongs to the caller of this atom alone
            if not self._connection.in_transaction or is_full(error):
                raise
            self._connection.execute("ROLLBACK TO atom")
            outcome = failure(error)
        self._connection.execute("RELEASE atom")
        return outcome

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the next BEGIN fails and says why
                self._connection.execute("ROLLBACK")
