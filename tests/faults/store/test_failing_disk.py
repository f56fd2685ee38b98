"""A disk rejects the writes of a running store on SQLite, several times for a while: callers get errors that they can
retry, no acknowledged write is lost, and the store goes on as soon as the disk does."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from antiphon_core.errors import StoreUnavailable
from antiphon_store.client import StoreClient
from tests.support.system import Command
from tests.support.waiting import until

TENANT = "acme"
WRITERS = 8
FAILURES = 5
"""How often the disk fails and recovers."""


@dataclass
class Writers:
    """Callers that write all the time. Errors other than StoreUnavailable end them."""

    store: StoreClient
    acknowledged: list[str] = field(default_factory=list)
    rejected: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write()) for _ in range(WRITERS)]
            yield
            for task in tasks:
                task.cancel()

    async def _write(self) -> None:
        while True:
            try:
                self.acknowledged.append((await self.store.create_conversation(TENANT)).id)
            except StoreUnavailable:
                self.rejected += 1
                await asyncio.sleep(0.01)


def limit_files(pid: int, size_bytes: int) -> None:
    """Writes of the process behind this position of a file fail, like those on a broken disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def started(database: Path) -> tuple[Command, str]:
    command = Command("serve", "--target=store", "--store-port=0", f"--store-url=sqlite:///{database}")
    return command, command.wait_for(r"^store +(\S+:\d+)")[1]


async def test_a_disk_that_fails_and_recovers_loses_no_acknowledged_write(tmp_path: Path) -> None:
    command, endpoint = await asyncio.to_thread(started, tmp_path / "store.db")
    async with StoreClient(endpoint) as store:
        writers = Writers(store)
        async with writers.running():
            for _ in range(FAILURES):
                written, rejected = len(writers.acknowledged), writers.rejected
                await until(lambda: len(writers.acknowledged) > written + WRITERS, "writes")  # noqa: B023
                limit_files(command.process.pid, 0)
                await until(lambda: writers.rejected > rejected + WRITERS, "rejected writes")  # noqa: B023
                assert (await store.get_conversation(TENANT, writers.acknowledged[-1])).id
                limit_files(command.process.pid, resource.RLIM_INFINITY)
            written = len(writers.acknowledged)
            await until(lambda: len(writers.acknowledged) > written + WRITERS, "writes after the last failure")
    command.kill()
    command, endpoint = await asyncio.to_thread(started, tmp_path / "store.db")
    async with StoreClient(endpoint) as store:
        for each in writers.acknowledged:
            assert (await store.get_conversation(TENANT, each)).id == each
    command.stop()
