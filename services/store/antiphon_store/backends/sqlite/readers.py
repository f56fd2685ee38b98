"""Reading beside the writer: a few threads, each with a connection of its own.

A read sees everything whose write was acknowledged before the read was asked for, because it begins afterwards. Each
batch of atoms is one transaction, and thus sees one moment of the database, whatever is written meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from antiphon_store.backends.sqlite.batches import Atom, Call, CallQueue, Outcome, failure

BATCH_ATOMS_MAX = 16  # bounds how long the first of a batch waits for the last

_Answer = TypeVar("_Answer")


class Readers:
    """Runs atoms that only read. Made inside a running event loop."""

    def __init__(self, connections: Sequence[sqlite3.Connection]) -> None:
        self._connections = connections
        self._calls = CallQueue(batch_max=BATCH_ATOMS_MAX, threads=len(connections))
        self._threads = [
            threading.Thread(target=self._work, args=(each,), name="sqlite reader", daemon=True) for each in connections
        ]
        for thread in self._threads:
            thread.start()

    def run(self, atom: Atom[_Answer]) -> Coroutine[Any, Any, _Answer]:
        """Returns or raises as `atom` does. StoreUnavailable: closed, overloaded, or SQLite cannot read."""
        return self._calls.run(atom)

    async def close(self) -> None:
        """Lets running reads end, then closes the connections."""
        self._calls.close()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        for connection in self._connections:  # one by one: the last of them removes the write-ahead log
            connection.close()

    def _work(self, connection: sqlite3.Connection) -> None:
        while (batch := self._calls.next_batch()) is not None:
            self._calls.deliver(batch, _read_all(connection, batch))


def _read_all(connection: sqlite3.Connection, batch: Sequence[Call]) -> list[Outcome]:
    try:
        connection.execute("BEGIN")
        return [_read(connection, call) for call in batch]
    except sqlite3.Error as error:
        return [failure(error) for _ in batch]
    finally:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # nothing was written
                connection.execute("ROLLBACK")


def _read(connection: sqlite3.Connection, call: Call) -> Outcome:
    try:
        return Outcome(call.atom(connection))
    except Exception as error:  # noqa: BLE001 - it belongs to the caller of this atom
        return failure(error)
