"""The implementations that the kit runs on. Each one is a column of the table; `antiphon_store.testing.topics` has the
rows.

The kit runs on every backend. Over gRPC it runs on memory, because the service does not know its backend, and in part
on one other backend, to show that nothing needs memory in the same process. The checks that the service makes itself
(`SERVICE_SUITES`) run on memory only, in the process and over gRPC. Sealed rows run all topics except
`TOPICS_WITHOUT_CONTENT`: those compare no sealed content, or count bytes, which sealing changes.

A new backend is an entry of `BACKENDS`. Tests of a capability that it `lacks` do not run on it. `lacks` has the
reason of each capability, or `NOT_YET`, which the table shows as a hole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_core.clock import Clock, ManualClock
from antiphon_core.sealing_keys import SealingKeys
from antiphon_lmdb.backend import LmdbRows
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.testing.topics import SERVICE_SUITES, TOPICS, Capability, Suite, needs
from tests.contract.store.row_backends import OPENED_ONCE, ROW_BACKENDS
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.redis_servers import (
    RedisServer,
    redis_cluster,
    redis_rows,
    redis_server,
    start_all,
)
from tests.support.rows import SpiedRows
from tests.support.volume import volume

Pair = tuple[RowBackend, RowBackend]


def nothing() -> None:
    """Restarts nothing: the data have no server."""


@dataclass(frozen=True, slots=True)
class Durable:
    """`make` makes an unopened backend over the same data. `restart` restarts the servers between two backends."""

    make: Callable[[], RowBackend]
    restart: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class Backend:
    """`open_pair` makes two unopened backends over the same data, as two processes would; the backends own the folder.
    `durable` makes a store of its own that is opened repeatedly."""

    open_pair: Callable[[Clock, Path], Pair]
    durable: Callable[[], AbstractContextManager[Durable]] | None = None
    lacks: Mapping[Capability, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One column: a backend by name, and whether it is reached over gRPC."""

    backend: str
    over_grpc: bool = False
    topics: Collection[str] = tuple(TOPICS)

    def asks(self, topic: str, suite: Suite, test: str) -> bool:
        """Whether the test applies here. A test of the backend itself does not run over gRPC."""
        if topic not in self.topics or (suite in SERVICE_SUITES and self.backend != SERVICE_BACKEND):
            return False
        return not self.over_grpc or "subject" in signature(getattr(suite, test)).parameters

    def lacking(self, suite: Suite, test: str) -> frozenset[Capability]:
        """The capabilities that the test needs and the backend lacks."""
        return (needs(suite) | needs(getattr(suite, test))).intersection(BACKENDS[self.backend].lacks)

    def runs(self, topic: str, suite: Suite, test: str) -> bool:
        return self.asks(topic, suite, test) and not self.lacking(suite, test)


# ---- Backends ----


def pair_of(name: str) -> Callable[[Clock, Path], Pair]:
    """Two backends over the same data."""

    def open_pair(clock: Clock, folder: Path) -> Pair:
        rows = ROW_BACKENDS[name](clock, folder)
        peer = rows if name in OPENED_ONCE else ROW_BACKENDS[name](clock, folder)
        return rows, peer

    return open_pair


def pair_by_programs(clock: Clock, _folder: Path) -> Pair:
    """Rows in memory that get programs instead of decisions, as the rows of a server do."""
    rows = SpiedRows(clock)
    return rows, rows


def pair_sealed(clock: Clock, _folder: Path) -> Pair:
    """Sealed rows in memory."""
    rows = seal_rows(MemoryRows(clock), SealingKeys.ephemeral())
    return rows, rows


@contextmanager
def durable_sqlite() -> Iterator[Durable]:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        yield Durable(lambda: SqliteRows(Path(folder) / "store.db", clock=clock))


@contextmanager
def durable_postgres() -> Iterator[Durable]:
    clock, schema, url = ManualClock(), new_schema(), shared_postgres().url
    yield Durable(lambda: PostgresRows(url, database_schema=schema, clock=clock))


@contextmanager
def durable_lmdb() -> Iterator[Durable]:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        yield Durable(lambda: LmdbRows(Path(folder) / "store.lmdb", clock=clock))


@contextmanager
def durable_redis() -> Iterator[Durable]:
    with redis_server() as server:
        yield Durable(lambda: redis_rows(server.url, durability=Durability.DISK), partial(restart, [server]))


@contextmanager
def durable_cluster() -> Iterator[Durable]:
    with redis_cluster() as cluster:
        url = f"{cluster.url}"
        yield Durable(lambda: redis_rows(url, durability=Durability.DISK), partial(restart, cluster.masters))


def restart(servers: Collection[RedisServer]) -> None:
    for server in servers:
        server.kill()
    start_all(servers)


# ---- The rows ----

NOT_YET = "not yet"
SERVICE_BACKEND = "memory"  # runs the checks that the service makes itself
TOPICS_WITHOUT_CONTENT = frozenset({"leases", "trees", "sweeping", "quotas", "lifecycle"})
BACKENDS: dict[str, Backend] = {
    "memory": Backend(pair_of("memory"), lacks={Capability.DURABLE_DATA: "its data are gone with the process"}),
    "memory by programs": Backend(pair_by_programs, lacks={Capability.DURABLE_DATA: "as for memory"}),
    "memory, sealed": Backend(
        pair_sealed,
        lacks={
            Capability.DURABLE_DATA: "as for memory",
            Capability.EXACT_HISTORY_BYTES: "sealed items are up to 79 bytes longer, of each response in a history",
        },
    ),
    "sqlite": Backend(
        pair_of("sqlite"),
        durable_sqlite,
        lacks={
            Capability.SHARED_QUOTAS: "they are counted in memory, so each process that serves the file counts alone"
        },
    ),
    "postgres": Backend(pair_of("postgres"), durable_postgres),
    "redis": Backend(pair_of("redis"), durable_redis),
    "redis cluster": Backend(pair_of("redis cluster"), durable_cluster),
}
# The example of a backend in its own package (docs/howto/add-a-backend.md), run each night.
EXAMPLES: dict[str, Backend] = volume({}, {"lmdb": Backend(pair_of("lmdb"), durable_lmdb)})
BACKENDS |= EXAMPLES

IMPLEMENTATIONS: dict[str, Implementation] = {
    **{name: Implementation(name) for name in BACKENDS},
    "memory, sealed": Implementation(
        "memory, sealed", topics=[each for each in TOPICS if each not in TOPICS_WITHOUT_CONTENT]
    ),
    "memory over gRPC": Implementation("memory", over_grpc=True),
    "postgres over gRPC": Implementation("postgres", over_grpc=True, topics={"records", "event logs"}),
}
