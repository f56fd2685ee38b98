"""The connection pool. Runs atoms with timeouts, and maps psycopg's errors.

The server cancels a statement that takes too long. If the server is stopped or unreachable, the atom times out here and
its connection is dropped. The next atom connects again.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.faults import translate
from antiphon_store.backends.postgres.server import Connection

CONNECTIONS_MAX = 16  # of one process: writers that wait for the disk together share one flush
CONNECTION_WAIT_S = 5.0  # for a free connection
ATOM_TIMEOUT_S = 12.0  # above the server's timeouts, whose errors say more
READY_TIMEOUT_S = 0.8
CANCEL_GRACE_S = 1.0  # for the server to cancel a statement
OPEN_TIMEOUT_S = 30.0

_Answer = TypeVar("_Answer")
Atom = Callable[[Connection], Awaitable[_Answer]]
Prepare = Callable[[Connection], Awaitable[None]]


class Connections:
    """Runs atoms on `most` connections at most. `configure` is applied to each new connection."""

    def __init__(self, conninfo: str, *, configure: Prepare, most: int = CONNECTIONS_MAX) -> None:
        self._conninfo = conninfo
        self._most = most
        self._configure = configure
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Timeout] = set()  # of atoms that wait for a connection

    async def open(self, prepare: Prepare | None = None) -> None:
        """Runs `prepare` on a first connection, then opens the pool. StoreUnavailable: the server cannot be reached, or
        `prepare` raised it."""
        pool = AsyncConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},  # an atom is one statement, and that is a transaction
            connection_class=AsyncConnection[tuple[Any, ...]],
            configure=self._configure,
            min_size=1,
            max_size=self._most,
            timeout=CONNECTION_WAIT_S,
            reconnect_timeout=0.1,  # one attempt; the next atom makes the next one
            reconnect_failed=self._end_waiting,
            name="antiphon-store",
            open=False,
        )
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                first = await AsyncConnection.connect(self._conninfo, autocommit=True)
                try:
                    await self._configure(first)
                    if prepare is not None:
                        await prepare(first)
                finally:
                    await first.close()
                await pool.open(wait=True, timeout=OPEN_TIMEOUT_S)
        except psycopg.Error as error:
            raise translate(error) from error
        except TimeoutError as error:
            raise StoreUnavailable("The store cannot be used: its database did not answer in time.") from error
        self._pool = pool

    async def close(self) -> None:
        """Waits for running atoms."""
        pool, self._pool = self._pool, None
        if pool is not None:
            while self._running:
                await asyncio.wait(self._running)
            await pool.close()

    async def run(self, atom: Atom[_Answer], *, timeout_s: float | None = None) -> _Answer:
        """Runs `atom`, and returns or raises as it does. StoreUnavailable: closed, unreachable, or a timeout."""
        task = asyncio.create_task(self._attempt(self._require_open(), atom))
        self._running.add(task)
        task.add_done_callback(self._finish_task)
        try:
            await asyncio.wait({task}, timeout=ATOM_TIMEOUT_S if timeout_s is None else timeout_s)
        except asyncio.CancelledError:
            _give_up(task)
            raise
        if not task.done():
            _give_up(task)
            raise StoreUnavailable("The store cannot be used: its database did not answer in time.")
        return task.result()

    def _require_open(self) -> AsyncConnectionPool[Connection]:
        if self._pool is None:
            raise StoreUnavailable("The store is not open.")
        return self._pool

    async def _attempt(self, pool: AsyncConnectionPool[Connection], atom: Atom[_Answer]) -> _Answer:
        try:
            async with self._connection(pool) as connection:
                return await atom(connection)
        except psycopg.Error as error:
            raise translate(error) from error

    @asynccontextmanager
    async def _connection(self, pool: AsyncConnectionPool[Connection]) -> AsyncIterator[Connection]:
        connection = await self._take(pool)
        while _is_stale(connection):
            await connection.close()
            await pool.putconn(connection)
            connection = await self._take(pool)
        try:
            yield connection
        finally:
            await pool.putconn(connection)

    async def _take(self, pool: AsyncConnectionPool[Connection]) -> Connection:
        try:
            async with asyncio.timeout(None) as timeout:
                self._waiting.add(timeout)
                try:
                    return await pool.getconn()
                finally:
                    self._waiting.discard(timeout)
        except TimeoutError as error:
            raise StoreUnavailable("The store cannot be used: its database cannot be reached.") from error

    def _end_waiting(self, pool: AsyncConnectionPool[Connection]) -> None:
        """Ends all waits for a connection if connecting failed and the pool is empty."""
        if pool.get_stats()["pool_size"] == 0:
            for timeout in self._waiting:
                timeout.reschedule(asyncio.get_running_loop().time())

    def _finish_task(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller may have gone


def _is_stale(connection: Connection) -> bool:
    """Whether the server has closed an idle connection, as a restart does: only then there is something to read."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def _give_up(task: asyncio.Task[Any]) -> None:
    """Cancels an atom. At first psycopg asks the server to cancel the statement; the second time it drops the
    connection."""
    task.cancel()
    asyncio.get_running_loop().call_later(CANCEL_GRACE_S, task.cancel)
