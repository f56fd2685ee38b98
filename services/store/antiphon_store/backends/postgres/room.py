"""Room on the server's disk: whether there is some, and a reserve for deletes and sweeps when there is none.

PostgreSQL is ready for as long as it runs, and writes a new version of a row for every change, a delete too. So a query
spills some megabytes now and then: a temporary file lies where the tables are. The reserve is made of such files, which
held cursors keep, on a connection of their own. A write that ends or deletes something, and finds the disk full, has
one of them closed and is repeated. There is room again when all of them could be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.connections import READY_TIMEOUT_S, Connections
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection

CANARY_S = 5.0  # between two looks at a disk that had room
PARTS = [f"antiphon_reserve_{number}" for number in range(8)]  # of a megabyte each


class Room:
    """`aside` has one connection, and is open."""

    def __init__(self, aside: Connections) -> None:
        self._aside = aside
        self._seen_s = float("-inf")
        self.is_full = False

    @contextmanager
    def doubted(self) -> Iterator[None]:
        """Around a write: when it finds no room, the next call of `require` looks."""
        try:
            yield
        except StoreUnavailable as error:
            if error.is_full:
                self._seen_s = float("-inf")
            raise

    async def require(self) -> None:
        """Returns when there is room, as of CANARY_S ago at most. StoreUnavailable."""
        if time.monotonic() - self._seen_s < CANARY_S:
            return
        self._seen_s = float("-inf")
        self.is_full = not await self._aside.run(_look, timeout_s=READY_TIMEOUT_S)
        self.require_not_full()
        self._seen_s = time.monotonic()

    def require_not_full(self) -> None:
        """StoreUnavailable: there was no room at the last look."""
        if self.is_full:
            raise StoreUnavailable("The store cannot be used: its database's disk is full.", full=True)

    async def lend(self) -> bool:
        """Gives a part of the reserve to the disk; False if nothing is left of it."""
        self.is_full, self._seen_s = True, float("-inf")
        return await self._aside.run(_lend)


async def _look(connection: Connection) -> bool:
    """Takes the reserve, and tries whether there is room besides."""
    held = await _held(connection)
    try:
        for part in PARTS:
            if part not in held:
                await _spill(connection, f"DECLARE {part} CURSOR WITH HOLD FOR {QUERIES['megabyte']}")
                await connection.execute(f"MOVE 1 FROM {part}")  # it writes the last of the file, before it is closed
        await _spill(connection, QUERIES["canary"])
    except errors.DiskFull:
        return False
    return True


async def _spill(connection: Connection, statement: str) -> None:
    """Runs a statement that keeps what it computes in a file."""
    async with connection.transaction():
        await connection.execute(QUERIES["little_memory"])
        await connection.execute(statement)


async def _lend(connection: Connection) -> bool:
    for part in await _held(connection):
        await connection.execute(f"CLOSE {part}", prepare=False)
        return True
    return False


async def _held(connection: Connection) -> set[str]:
    found = await (await connection.execute(QUERIES["held_cursors"])).fetchall()
    return {name for (name,) in found} & set(PARTS)
