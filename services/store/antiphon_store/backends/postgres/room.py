"""Checks the space on the server's disk, and keeps a reserve of it for deletes and sweeps on a full disk.

PostgreSQL accepts connections on a full disk, but needs space for every change, a delete too. The check is a query that
spills some megabytes into a temporary file, which lies where the tables are. The reserve is made of such files: held
cursors keep them, on a connection of their own. If a write that ends or deletes something finds the disk full, one of
the cursors is closed and the write is repeated. The disk has space again when all of the reserve could be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import errors

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.connections import READY_TIMEOUT_S, Connections
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection

CANARY_S = 5.0  # between two checks of a disk that had space
PARTS = [f"antiphon_reserve_{number}" for number in range(8)]  # of a megabyte each

_Answer = TypeVar("_Answer")


class Room:
    """The space on the disk, and the reserve. `connections` has one connection, and is opened before the first call."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._seen_s = float("-inf")  # the time at which the disk last had space
        self.is_full = False

    async def write(self, write: Callable[[], Awaitable[_Answer]], *, in_reserve: bool) -> _Answer:
        """Runs a write and returns its answer. A write that needs little space runs in the reserve if the disk is full.
        StoreUnavailable: the disk was full at the last check, or the write failed."""
        if not in_reserve:
            self._require_not_full()
        while True:
            try:
                return await write()
            except StoreUnavailable as error:
                if error.is_full:
                    self._seen_s = float("-inf")
                if not (error.is_full and in_reserve and await self.lend()):
                    raise

    async def require(self) -> None:
        """Checks the disk, unless it had space within the last CANARY_S seconds. StoreUnavailable: the disk is full."""
        if time.monotonic() - self._seen_s < CANARY_S:
            return
        self._seen_s = float("-inf")
        self.is_full = not await self._connections.run(_has_space, timeout_s=READY_TIMEOUT_S)
        self._require_not_full()
        self._seen_s = time.monotonic()

    def _require_not_full(self) -> None:
        if self.is_full:
            raise StoreUnavailable("The store cannot be used: its database's disk is full.", full=True)

    async def lend(self) -> bool:
        """Frees a part of the reserve; False if none is left."""
        self.is_full, self._seen_s = True, float("-inf")
        return await self._connections.run(_lend)


async def _has_space(connection: Connection) -> bool:
    """Takes the missing parts of the reserve, and checks for some megabytes besides."""
    held = await _held_names(connection)
    try:
        for part in PARTS:
            if part not in held:
                await _spill(connection, f"DECLARE {part} CURSOR WITH HOLD FOR {QUERIES['megabyte']}")
                await connection.execute(f"MOVE 1 FROM {part}")  # writes the rest of the file, which was in memory
        await _spill(connection, QUERIES["canary"])
    except errors.DiskFull:
        return False
    return True


async def _spill(connection: Connection, statement: str) -> None:
    """Runs a statement whose result spills into a file."""
    async with connection.transaction():
        await connection.execute(QUERIES["little_memory"])
        await connection.execute(statement)


async def _lend(connection: Connection) -> bool:
    for part in await _held_names(connection):
        await connection.execute(f"CLOSE {part}", prepare=False)
        return True
    return False


async def _held_names(connection: Connection) -> set[str]:
    found = await (await connection.execute(QUERIES["held_cursors"])).fetchall()
    return {name for (name,) in found} & set(PARTS)
