"""The pool of connections, and what it means to run an atom on one.

Everything ends in bounded time. The server ends a statement that takes too long; when it does not even do that, because
it is stopped or unreachable, the caller is answered here and the connection is given up. A server that comes back is
used again by the next atom. psycopg's errors end here.
"""

from __future__ import annotations

import asyncio
import random
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.faults import is_conflict, translate
from antiphon_store.backends.postgres.server import Connection

CONNECTIONS_MAX = 16  # of one process: writers that wait for the disk together share one flush
CONNECTION_WAIT_S = 5.0  # for one of them to be free
ATOM_TIMEOUT_S = 12.0  # over the server's own limits, so that it is the server that says why
READY_TIMEOUT_S = 0.8
CANCEL_GRACE_S = 1.0  # for the server to hear that nobody waits any more
OPEN_TIMEOUT_S = 30.0
CONFLICT_ATTEMPTS_MAX = 5
CONFLICT_PAUSE_S = 0.02

_Answer = TypeVar("_Answer")
Atom = Callable[[Connection], Awaitable[_Answer]]
Prepare = Callable[[Connection], Awaitable[None]]


class Connections:
    """Runs atoms. `configure` is applied to each new connection, `prepare` to one before all others. There are `most`
    connections."""

    def __init__(self, conninfo: str, *, configure: Prepare, most: int = CONNECTIONS_MAX) -> None:
        self._conninfo = conninfo
        self._most = most
        self._configure = configure
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Timeout] = set()  # of atoms that have no connection yet

    async def open(self, prepare: Prepare) -> None:
        """StoreUnavailable: the server cannot be reached, or what `prepare` says."""
        pool = AsyncConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},  # an atom is one statement, and that is a transaction
            connection_class=AsyncConnection[tuple[Any, ...]],
            configure=self._configure,
            min_size=1,
            max_size=self._most,
            timeout=CONNECTION_WAIT_S,
            reconnect_timeout=0.1,  # one attempt at a time: the next atom makes the next
            reconnect_failed=self._end_waiting,
            name="antiphon-store",
            open=False,
        )
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                first = await AsyncConnection.connect(self._conninfo, autocommit=True)
                try:
                    await self._configure(first)
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
        """Lets running atoms end."""
        pool, self._pool = self._pool, None
        if pool is not None:
            while self._running:
                await asyncio.wait(self._running)
            await pool.close()

    async def run(self, atom: Atom[_Answer], *, timeout_s: float | None = None) -> _Answer:
        """Runs `atom`; its answer or error. StoreUnavailable: closed, unreachable, or no answer in time."""
        task = asyncio.create_task(self._attempt(self.require_open(), atom))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=ATOM_TIMEOUT_S if timeout_s is None else timeout_s)
        except asyncio.CancelledError:
            _give_up(task)
            raise
        if not task.done():
            _give_up(task)
            raise StoreUnavailable("The store cannot be used: its database did not answer in time.")
        return task.result()

    def require_open(self) -> AsyncConnectionPool[Connection]:
        """StoreUnavailable."""
        if self._pool is None:
            raise StoreUnavailable("The store is not open.")
        return self._pool

    async def _attempt(self, pool: AsyncConnectionPool[Connection], atom: Atom[_Answer]) -> _Answer:
        """Runs the atom, again when it was in another's way: its transaction then changed nothing."""
        attempts_left = CONFLICT_ATTEMPTS_MAX
        while True:
            attempts_left -= 1
            try:
                async with self._connection(pool) as connection:
                    return await atom(connection)
            except psycopg.Error as error:
                if not is_conflict(error) or not attempts_left:
                    raise translate(error) from error
            await asyncio.sleep(random.uniform(0, CONFLICT_PAUSE_S))  # noqa: S311 - spreads two writers, nothing more

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
            async with asyncio.timeout(None) as patience:
                self._waiting.add(patience)
                try:
                    return await pool.getconn()
                finally:
                    self._waiting.discard(patience)
        except TimeoutError as error:
            raise StoreUnavailable("The store cannot be used: its database cannot be reached.") from error

    def _end_waiting(self, pool: AsyncConnectionPool[Connection]) -> None:
        """The server refused a connection. When there is none at all, waiting for one helps nobody."""
        if pool.get_stats()["pool_size"] == 0:
            for patience in self._waiting:
                patience.reschedule(asyncio.get_running_loop().time())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it may be that nobody else looks at it


def _is_stale(connection: Connection) -> bool:
    """Whether an idle connection has something to say, which is good-bye: the server was restarted. No round trip."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))


def _give_up(task: asyncio.Task[Any]) -> None:
    """Cancels an atom. psycopg first asks the server to stop; asked twice, it drops the connection."""
    task.cancel()
    asyncio.get_running_loop().call_later(CANCEL_GRACE_S, task.cancel)
