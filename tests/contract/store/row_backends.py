"""The row backends by name. Each entry makes an unopened backend over its own data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon_core.clock import Clock
from antiphon_lmdb.backend import LmdbRows
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.backend import RedisRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability, RowBackend
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import shared_cluster, shared_redis


def redis_rows(url: str, clock: Clock, durability: Durability = Durability.MEMORY) -> RedisRows:
    """Rows on these servers."""
    scheme, _, rest = url.partition("://")
    return RedisRows(parse_address(scheme, rest), durability=durability, clock=clock)


def postgres_rows(clock: Clock) -> PostgresRows:
    """Rows on the shared server."""
    return PostgresRows(shared_postgres().url, durability=Durability.PROCESS, database_schema="rows", clock=clock)


ROW_BACKENDS: dict[str, Callable[[Clock, Path], RowBackend]] = {
    "lmdb": lambda clock, folder: LmdbRows(folder / "rows.lmdb", durability=Durability.PROCESS, clock=clock),
    "memory": lambda clock, _folder: MemoryRows(clock),
    "postgres": lambda clock, _folder: postgres_rows(clock),
    "redis": lambda clock, _folder: redis_rows(shared_redis().url, clock),
    "redis cluster": lambda clock, _folder: redis_rows(shared_cluster().url, clock),
    "sqlite": lambda clock, folder: SqliteRows(folder / "rows.db", durability=Durability.PROCESS, clock=clock),
}
OPENED_ONCE = frozenset({"lmdb", "memory"})
"""Backends that one process can open only once over the same data."""
SPREAD = frozenset({"redis cluster"})
"""Backends that write tenant-wide entries before a program. The entries of a rejected program stay."""
