"""kill -9 during writes, several times: every acknowledged response is there afterwards, and every chain is whole.

Kills a process that has the SQLite file itself, and the deployed service over each database.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from antiphon_core.ports.store import Record
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.client import StoreClient
from antiphon_store.service import StoreService
from tests.faults.store.acknowledged import ACKNOWLEDGED, TENANT, WRITERS, require_all, write_until_killed
from tests.support import redis_servers
from tests.support.postgres_server import postgres_server
from tests.support.redis_servers import RedisServer, redis_server, start_all
from tests.support.system import Command
from tests.support.volume import volume

KILLS = volume(2, 4)  # of the service and of its database, alternating

# Commits turns with several writers, and prints each id after its acknowledgement.
WRITER = f"""
import asyncio, sys
from pathlib import Path
from antiphon_core.ports.store import TurnCommit
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft

async def write(store):
    parent = None
    while True:
        record = draft(parent)
        await store.commit_turn("{TENANT}", TurnCommit(record))
        print(record.id, flush=True)
        parent = record

async def main():
    backend = SqliteRows(Path(sys.argv[1]))
    await backend.open()
    await asyncio.gather(*(write(StoreService(backend)) for _ in range({WRITERS})))

asyncio.run(main())
"""


def write_and_kill(path: Path) -> list[str]:
    """The ids that a process acknowledged before it was killed."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(ACKNOWLEDGED // KILLS)]
        process.send_signal(signal.SIGKILL)
        return acknowledged + [line.strip() for line in process.stdout if line.endswith("\n")]


async def test_acknowledged_writes_survive_kill_9_of_the_writer(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "store.db", list[str]()
    for _ in range(KILLS):
        acknowledged += await asyncio.to_thread(write_and_kill, path)
    assert len(acknowledged) >= ACKNOWLEDGED
    backend = SqliteRows(path)
    await backend.open()
    store = StoreService(backend)
    for response_id in acknowledged:
        assert (await store.get(TENANT, response_id)).version == 1
    for response_id in acknowledged[-WRITERS:]:
        chain = await store.chain(TENANT, response_id)
        assert [each.depth for each in chain] == list(range(len(chain)))
    await backend.close()


def nothing() -> None:
    """Neither kills nor starts a process."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The database behind the service, and how its processes are killed and started, if it has any."""

    url: str
    kill: Callable[[], None] = nothing
    start: Callable[[], None] = nothing
    has_processes: bool = True


@contextmanager
def sqlite(folder: Path) -> Iterator[Backend]:
    yield Backend(f"sqlite:///{folder / 'store.db'}", has_processes=False)


@contextmanager
def postgres(_folder: Path) -> Iterator[Backend]:
    with postgres_server() as server:
        yield Backend(server.url, server.kill, server.start)


@contextmanager
def redis(_folder: Path) -> Iterator[Backend]:
    with redis_server() as server:
        yield Backend(server.url, server.kill, server.start)


@contextmanager
def redis_cluster(_folder: Path) -> Iterator[Backend]:
    with redis_servers.redis_cluster() as cluster:
        yield Backend(cluster.url, partial(kill_all, cluster.masters), partial(start_all, cluster.masters))


def kill_all(servers: Sequence[RedisServer]) -> None:
    for server in servers:
        server.kill()


@pytest.mark.parametrize("backend", [sqlite, postgres, redis, redis_cluster], ids=lambda e: e.__name__)
async def test_acknowledged_writes_survive_kill_9_of_service_and_database(
    backend: Callable[[Path], AbstractContextManager[Backend]], tmp_path: Path
) -> None:
    """Alternates: the database restarts under the service, and the service over the database."""
    acknowledged: list[Record] = []
    with backend(tmp_path) as below, ExitStack() as services:
        service = serve(services, below.url)
        for number in range(KILLS):
            kills_service = number % 2 == 0 or not below.has_processes
            kill = service.kill if kills_service else below.kill
            async with client_of(service) as store:
                acknowledged += await write_until_killed(store, kill, ACKNOWLEDGED // KILLS)
            if kills_service:
                service = serve(services, below.url)
            else:
                await asyncio.to_thread(below.start)
        async with client_of(service) as store:
            await require_all(store, acknowledged)
    assert len(acknowledged) >= ACKNOWLEDGED


def serve(services: ExitStack, url: str) -> Command:
    """The store's service over this database, in its own process, at the default durability `disk`."""
    service = Command("serve", "--target=store", "--store-port=0", f"--store-url={url}")
    services.callback(service.kill)
    services.callback(lambda: print("".join(service.lines[-40:])))  # shown when the test fails
    return service


def client_of(service: Command) -> StoreClient:
    return StoreClient(service.wait_for(r"^store +(\S+:\d+)")[1])
