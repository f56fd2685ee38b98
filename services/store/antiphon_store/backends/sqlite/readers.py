"""Reading beside the writer: a few threads, each with a connection of its own while it reads.

A read sees everything whose write was acknowledged before the read was asked for, because it begins afterwards. Each
atom is a single statement, and thus sees one moment of the database, whatever is written meanwhile.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate

_Answer = TypeVar("_Answer")


class Readers:
    """Runs atoms that only read."""

    def __init__(self, connections: Sequence[sqlite3.Connection]) -> None:
        self._connections = connections
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for connection in connections:
            self._idle.put(connection)
        self._threads = ThreadPoolExecutor(max_workers=len(connections), thread_name_prefix="sqlite reader")
        self._closed = False

    async def run(self, atom: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """What `atom` returns or raises. StoreUnavailable: closed, or SQLite cannot read."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, atom)

    async def close(self) -> None:
        """Lets running reads end, then closes the connections."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, atom: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        connection = self._idle.get()
        try:
            return atom(connection)
        except sqlite3.Error as error:
            raise translate(error) from error
        finally:
            self._idle.put(connection)
