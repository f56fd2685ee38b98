"""The measured engines: real servers, each with the store's backend and the raw engine."""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.schema import SCHEMA
from antiphon_store.backends.registry import row_backend
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.encryption import configured_rows
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.service import StoreService
from benchmarks.store.raw import postgres as raw_postgres
from benchmarks.store.raw.memory import RawMemory
from benchmarks.store.raw.postgres import RawPostgres
from benchmarks.store.raw.redis import RawRedis
from benchmarks.store.raw.side import Engine, Raw
from benchmarks.store.raw.sqlite import RawSqlite
from benchmarks.store.sides import Port
from tests.support.ports import HOST
from tests.support.postgres_server import postgres_server
from tests.support.redis_servers import SAFE, RedisServer, redis_cluster, redis_rows, redis_server

DURABLE = (Durability.PROCESS, Durability.DISK)
_APPENDFSYNC = {Durability.DISK: "always", Durability.PROCESS: "everysec"}

Pair = tuple[RowBackend, Engine]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A running engine. `make` makes both sides for a durability. `store_bytes` and `raw_bytes` return the space that
    each side uses."""

    name: str
    raw_name: str
    make: Callable[[Durability], Pair]
    store_bytes: Callable[[], int]
    raw_bytes: Callable[[], int]
    durabilities: Sequence[Durability] = DURABLE

    @asynccontextmanager
    async def at(self, durability: Durability) -> AsyncIterator[tuple[Port, Raw]]:
        """Opens both sides."""
        rows, engine = self.make(durability)
        store = StoreService(rows)
        await store.open()
        await engine.open()
        try:
            yield Port(store), Raw(engine)
        finally:
            await engine.close()
            await store.close()


@contextmanager
def memory() -> Iterator[Deployment]:
    pair: Pair = (row_backend("memory://"), RawMemory())
    try:
        yield Deployment(
            "Memory", "a dictionary", lambda _durability: pair, _traced_bytes, _traced_bytes, [Durability.MEMORY]
        )
    finally:
        tracemalloc.stop()  # tracing would slow down the next measurements


@contextmanager
def sqlite() -> Iterator[Deployment]:
    with tempfile.TemporaryDirectory(prefix="sqlite-") as folder:
        ours, raw = Path(folder) / "store.db", Path(folder) / "raw.db"
        yield Deployment(
            "SQLite",
            "sqlite3",
            lambda durability: (SqliteRows(ours, durability=durability), RawSqlite(raw, durability)),
            lambda: _file_bytes(ours),
            lambda: _file_bytes(raw),
        )


@contextmanager
def sealed() -> Iterator[Deployment]:
    """SQLite with sealed content. Compare its rates with those of SQLite."""
    with tempfile.TemporaryDirectory(prefix="sealed-") as folder:
        ours, raw = Path(folder) / "store.db", Path(folder) / "raw.db"
        keys = SealingKeys.ephemeral()

        def make(durability: Durability) -> Pair:
            rows = configured_rows.seal_rows(SqliteRows(ours, durability=durability), keys)
            return rows, RawSqlite(raw, durability)

        yield Deployment("SQLite, sealed", "sqlite3", make, lambda: _file_bytes(ours), lambda: _file_bytes(raw))


@contextmanager
def postgres() -> Iterator[Deployment]:
    with postgres_server() as server:
        url = server.url
        yield Deployment(
            "PostgreSQL",
            "psycopg",
            lambda durability: (PostgresRows(url, durability=durability), RawPostgres(url, durability)),
            lambda: _schema_bytes(url, SCHEMA),
            lambda: _schema_bytes(url, raw_postgres.SCHEMA),
        )


@contextmanager
def redis() -> Iterator[Deployment]:
    with redis_server(SAFE) as server:
        yield _redis_deployment("Redis", [server], server.url)


@contextmanager
def cluster() -> Iterator[Deployment]:
    """A Redis cluster. All keys of the only tenant are on one of its masters."""
    with redis_cluster(SAFE) as servers:
        yield _redis_deployment("Redis Cluster", servers.masters, f"{servers.url}")


def _redis_deployment(name: str, masters: Sequence[RedisServer], url: str) -> Deployment:
    def make(durability: Durability) -> Pair:
        for master in masters:
            with master.client() as client:
                client.config_set("appendfsync", _APPENDFSYNC[durability])
        raw = RawRedis(HOST, masters[0].port, is_cluster=len(masters) > 1)
        return redis_rows(url, durability=durability), raw

    def used_bytes() -> int:
        return sum(_used_bytes(master) for master in masters)

    return Deployment(name, "redis-py", make, used_bytes, used_bytes)


DEPLOYMENTS: dict[str, Callable[[], AbstractContextManager[Deployment]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "sealed": sealed,
    "postgres": postgres,
    "redis": redis,
    "cluster": cluster,
}


def _traced_bytes() -> int:
    """Returns the bytes that Python has allocated since the first call of this function."""
    gc.collect()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


def _file_bytes(path: Path) -> int:
    """Returns the size of the file after its log was written into it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _schema_bytes(url: str, schema: str) -> int:
    total = (
        "SELECT sum(pg_total_relation_size(pg_class.oid))::bigint FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind = 'r' AND nspname = %s"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(total, (schema,)).fetchone()
    return int(row[0] or 0) if row else 0


def _used_bytes(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.info("memory")["used_memory"])
