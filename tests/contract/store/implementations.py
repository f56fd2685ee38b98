"""What the kit runs on: the columns of the table, one row each. The topics are `antiphon_store.testing.topics`.

Everything runs on every engine; on wrappers and over gRPC it runs on memory, because neither knows what is below it.
One engine over gRPC besides shows that nothing of that depends on memory's being in the same process.

A new engine is a row of `ENGINES`. What needs a capability that it `lacks` does not run on it: the reason stands beside
the name, or `NOT_YET`, which the table shows as a hole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_core.clock import Clock, ManualClock, SystemClock
from antiphon_store.backends.base import Durability
from antiphon_store.backends.engine import StoreEngine
from antiphon_store.backends.memory_rows import MemoryRows
from antiphon_store.backends.postgres.row_backend import PostgresRows
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.backends.sqlite.row_backend import SqliteRows
from antiphon_store.engine.facade import RowEngine
from antiphon_store.testing.topics import TOPICS, Capability, Suite, needs
from antiphon_store.wrappers.faulty import FaultyBackend
from antiphon_store.wrappers.observed import ObservedBackend
from tests.contract.store.row_backends import postgres_rows, redis_rows
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.redis_servers import (
    RedisServer,
    redis_cluster,
    redis_server,
    shared_cluster,
    shared_redis,
    wait_until,
)

Pair = tuple[StoreEngine, StoreEngine]


def nothing() -> None:
    """The data have no server of their own to restart."""


@dataclass(frozen=True, slots=True)
class Durable:
    """`make`: a backend over the same data, not yet opened. `restart`: what happens to the servers in between."""

    make: Callable[[], StoreEngine]
    restart: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class Engine:
    """`open_pair`: two backends over the same data, as two processes would have them, not yet opened; the folder is
    theirs. `durable`: a store of its own, to be opened again and again."""

    open_pair: Callable[[Clock, Path], Pair]
    durable: Callable[[], AbstractContextManager[Durable]] | None = None
    lacks: Mapping[Capability, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One column: an engine by name, what is wrapped around it, and whether it is reached over gRPC."""

    engine: str
    wrap: Callable[[StoreEngine], StoreEngine] | None = None
    over_grpc: bool = False
    topics: Collection[str] = tuple(TOPICS)

    def asks(self, topic: str, suite: Suite, test: str) -> bool:
        """Whether the test has anything to say here. What asks the backend itself says nothing of the way to it."""
        if topic not in self.topics:
            return False
        return not self.over_grpc or "subject" in signature(getattr(suite, test)).parameters

    def lacking(self, suite: Suite, test: str) -> frozenset[Capability]:
        """The capabilities that the test needs and the engine lacks."""
        return (needs(suite) | needs(getattr(suite, test))).intersection(ENGINES[self.engine].lacks)

    def runs(self, topic: str, suite: Suite, test: str) -> bool:
        return self.asks(topic, suite, test) and not self.lacking(suite, test)


# ---- Engines ----


def memory_pair(clock: Clock, _folder: Path) -> Pair:
    backend = RowEngine(MemoryRows(clock))
    return backend, backend


def sqlite_pair(clock: Clock, folder: Path) -> Pair:
    one, two = (SqliteBackend(folder / "store.db", durability=Durability.PROCESS, clock=clock) for _ in range(2))
    return one, two


def sqlite_rows_pair(clock: Clock, folder: Path) -> Pair:
    one, two = (
        RowEngine(SqliteRows(folder / "store.db", durability=Durability.PROCESS, clock=clock)) for _ in range(2)
    )
    return one, two


def postgres_pair(clock: Clock, _folder: Path) -> Pair:
    return RowEngine(postgres_rows(clock)), RowEngine(postgres_rows(clock))


def redis_pair(clock: Clock, _folder: Path) -> Pair:
    one, two = (RowEngine(redis_rows(shared_redis().url, clock)) for _ in range(2))
    return one, two


def cluster_pair(clock: Clock, _folder: Path) -> Pair:
    one, two = (RowEngine(redis_rows(shared_cluster().url, clock)) for _ in range(2))
    return one, two


@contextmanager
def durable_sqlite() -> Iterator[Durable]:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        yield Durable(lambda: SqliteBackend(Path(folder) / "store.db", clock=clock))


@contextmanager
def durable_sqlite_rows() -> Iterator[Durable]:
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        yield Durable(lambda: RowEngine(SqliteRows(Path(folder) / "store.db", clock=clock)))


@contextmanager
def durable_postgres() -> Iterator[Durable]:
    clock, schema, url = ManualClock(), new_schema(), shared_postgres().url
    yield Durable(lambda: RowEngine(PostgresRows(url, database_schema=schema, clock=clock)))


@contextmanager
def durable_redis() -> Iterator[Durable]:
    with redis_server() as server:
        made = partial(redis_rows, server.url, SystemClock(), Durability.DISK)
        yield Durable(lambda: RowEngine(made()), partial(restart, [server]))


@contextmanager
def durable_cluster() -> Iterator[Durable]:
    with redis_cluster() as cluster:
        made = partial(redis_rows, cluster.url, SystemClock(), Durability.DISK)
        yield Durable(lambda: RowEngine(made()), partial(restart, cluster.masters))


def restart(servers: Collection[RedisServer]) -> None:
    """They are killed, and read their append-only files."""
    for server in servers:
        server.kill()
    for server in servers:
        server.start()
    wait_until(lambda: all(map(covers_its_slots, servers)), "the servers after their restart")


def ignore(atom: str, seconds: float, error: BaseException | None) -> None:
    """Observes nothing."""


def covers_its_slots(server: RedisServer) -> bool:
    """Whether it takes commands: a node of a cluster does not before it has heard of the others."""
    with server.client() as client:
        if not client.info("cluster")["cluster_enabled"]:
            return True
        return "cluster_state:ok" in client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]


# ---- The rows ----

NOT_YET = "not yet"
BY_TREE = "each tree lies on one master of the cluster: "

ENGINES: dict[str, Engine] = {
    "memory": Engine(memory_pair, lacks={Capability.DURABLE_DATA: "its data are gone with the process"}),
    "sqlite": Engine(
        sqlite_pair,
        durable_sqlite,
        lacks={
            Capability.SHARED_SPENDING: "it is counted in memory, so each process that serves the file counts alone"
        },
    ),
    "sqlite rows": Engine(
        sqlite_rows_pair,
        durable_sqlite_rows,
        lacks={
            Capability.SHARED_SPENDING: "it is counted in memory, so each process that serves the file counts alone"
        },
    ),
    "postgres": Engine(postgres_pair, durable_postgres),
    "redis": Engine(redis_pair, durable_redis),
    # everything of a tenant on one master
    "redis cluster": Engine(cluster_pair, durable_cluster),
}

IMPLEMENTATIONS: dict[str, Implementation] = {
    **{name: Implementation(name) for name in ENGINES},
    "memory, observed": Implementation("memory", wrap=lambda inner: ObservedBackend(inner, ignore)),
    "memory, faulty": Implementation("memory", wrap=FaultyBackend),
    "memory over gRPC": Implementation("memory", over_grpc=True),
    "postgres over gRPC": Implementation("postgres", over_grpc=True, topics={"records", "event logs"}),
}
