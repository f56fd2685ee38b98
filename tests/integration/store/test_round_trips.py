"""A chain and a turn's history are read in one round trip to the database, at any depth.

Counted are, for PostgreSQL, the requests that a proxy sees on the wire; for Redis, the reads of the servers' sockets;
for SQLite, the transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from antiphon_core import limits
from antiphon_core.ports.store import Record, TurnRequest
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import RedisServer, redis_rows, shared_cluster, shared_redis

CHUNK_BYTES = 2**16
DEPTHS = (1, 10, 100, 1_000)
TENANT = new_session_id()  # servers are shared with other tests

BOUNDS = {"max_depth": limits.CHAIN_DEPTH_MAX, "max_bytes": limits.CHAIN_BYTES_MAX}

Count = Callable[[], int]
CountedStore = tuple[StoreService, Count]  # an opened store, and the count of its round trips so far


class CountingProxy:
    """Forwards bytes to a server, and counts requests: each time the client sends after an answer."""

    def __init__(self) -> None:
        self.questions = 0
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def to(self, host: str, port: int) -> AsyncIterator[int]:
        """Yields the port of the proxy. Clients must close their connections before the end."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with closing(writer):
                await self._serve(reader, writer, *await asyncio.open_connection(host, port))

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connections.add(asyncio.create_task(serve(reader, writer)))

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]
            await asyncio.gather(*self._connections)

    async def _serve(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        was_answered = True

        async def ask() -> None:
            nonlocal was_answered
            while question := await client.read(CHUNK_BYTES):
                self.questions += was_answered
                was_answered = False
                to_server.write(question)
            to_server.close()

        async def answer() -> None:
            nonlocal was_answered
            while data := await server.read(CHUNK_BYTES):
                was_answered = True
                to_client.write(data)

        await asyncio.gather(ask(), answer())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[CountedStore]:
    statements: list[str] = []
    rows = SqliteRows(folder / "store.db", durability=Durability.PROCESS)
    backend = StoreService(rows)
    await backend.open()
    assert rows._reading is not None
    for connection in rows._reading._connections:
        connection.set_trace_callback(statements.append)
    yield backend, lambda: statements.count("BEGIN")
    await backend.close()


@asynccontextmanager
async def postgres(_folder: Path) -> AsyncIterator[CountedStore]:
    server = urlsplit(shared_postgres().url)
    proxy = CountingProxy()
    async with proxy.to("127.0.0.1", server.port or 0) as port:
        url = server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()
        backend = StoreService(PostgresRows(url, durability=Durability.PROCESS))
        await backend.open()
        yield backend, lambda: proxy.questions
        await backend.close()


@asynccontextmanager
async def redis(_folder: Path) -> AsyncIterator[CountedStore]:
    backend = StoreService(redis_rows(shared_redis().url))
    await backend.open()
    with reads_of([shared_redis()]) as count:
        yield backend, count
    await backend.close()


@asynccontextmanager
async def redis_cluster(_folder: Path) -> AsyncIterator[CountedStore]:
    backend = StoreService(redis_rows(shared_cluster().url))
    await backend.open()
    with reads_of(shared_cluster().masters) as count:
        yield backend, count
    await backend.close()


@contextmanager
def reads_of(servers: Sequence[RedisServer]) -> Iterator[Count]:
    """The number of reads of the servers' sockets, including the read of this question. A command of ours is short: one
    read."""
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for server in servers]
        yield lambda: sum(client.info("stats")["total_reads_processed"] for client in clients)


BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[CountedStore]]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "redis cluster": redis_cluster,
}


@pytest.fixture(params=BACKENDS)
async def counted_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CountedStore]:
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened


async def test_a_chain_of_any_depth_is_read_in_one_round_trip(counted_store: CountedStore) -> None:
    backend, count = counted_store
    line = await stored_line(backend, max(DEPTHS))

    async def chain(depth: int) -> None:
        found = await backend.chain(TENANT, line[depth - 1].id, **BOUNDS)
        assert [record.id for record in found] == [record.id for record in line[:depth]]

    async def history(depth: int) -> None:
        start = await backend.begin_turn(TENANT, TurnRequest(previous_response_id=line[depth - 1].id))
        assert start.history.depth == depth

    async def one_by_one(depth: int) -> None:
        for record in line[:depth]:
            await backend.get(TENANT, record.id)

    for read in (chain, history, one_by_one):
        await read(1)  # statements are prepared and scripts loaded when they are first used
    assert {depth: await round_trips(count, chain(depth)) for depth in DEPTHS} == dict.fromkeys(DEPTHS, 1)
    assert {depth: await round_trips(count, history(depth)) for depth in DEPTHS} == dict.fromkeys(DEPTHS, 1)
    assert await round_trips(count, one_by_one(10)) == 10, "what counts does not count"


async def stored_line(backend: StoreService, length: int) -> list[Record]:
    """Stores responses that each continue the one before."""
    line: list[Record] = []
    for _ in range(length):
        line.append(draft(line[-1] if line else None))
        await backend.put(TENANT, line[-1])
    return line


async def round_trips(count: Count, reading: Awaitable[None]) -> int:
    """The number of round trips of `reading`, without those of the counting."""
    first, second = count(), count()
    await reading
    return count() - second - (second - first)
