"""Sentinel elects another master while the old one is paused, and the old one resumes later: at durability `quorum`
every acknowledged response is kept, and the old master acknowledges nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import Record
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import content, draft
from tests.support.redis_servers import WatchedRedis, redis_rows, watched_redis
from tests.support.volume import volume
from tests.support.waiting import until, with_retries

TENANT = "t"
WRITERS = 16
BETWEEN_WRITES_S = volume(0.01, 0.0)  # pause of each writer, except around the failure
BEFORE_S, AFTER_S = 0.5, 2.5  # of writing before the master is paused and after it resumes


@dataclass(slots=True)
class Writing:
    """Writers of several clients, and the records acknowledged to them. The writers write until `over` is set."""

    backends: Sequence[StoreService]
    acknowledged: list[tuple[StoreService, Record]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    between_s: float = BETWEEN_WRITES_S

    async def write_on(self, backend: StoreService) -> None:
        """Writes a chain of responses. Replaces a write that fails as unavailable by a new one."""
        parent = None
        while not self.over.is_set():
            record = draft(parent)
            try:
                await backend.put(TENANT, record)
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                self.acknowledged.append((backend, record))
                parent = record
                await asyncio.sleep(self.between_s)

    async def goes_on(self) -> None:
        """Waits until every client has an acknowledgement for a write that begins after this call."""
        mark = len(self.acknowledged) + WRITERS  # as many writes may be in flight
        await until(lambda: {backend for backend, _ in self.acknowledged[mark:]} == set(self.backends), "writes go on")

    async def hurry(self) -> None:
        """Makes all writers write without pauses, so that each has a write in flight."""
        self.between_s = 0.0
        await asyncio.sleep(BETWEEN_WRITES_S)  # every pause that began before is over
        await self.goes_on()

    async def while_the_master_sleeps(self, watched: WatchedRedis) -> None:
        try:
            await self.goes_on()
            await asyncio.sleep(BEFORE_S)
            master = watched.master()
            await self.hurry()
            master.pause()
            await until(lambda: watched.master() is not master, "another master")
            await self.goes_on()
            self.between_s = BETWEEN_WRITES_S
            master.resume()
            await asyncio.sleep(AFTER_S)
            await self.goes_on()
        finally:
            self.over.set()


async def test_acknowledged_writes_survive_a_failover() -> None:
    with watched_redis() as watched:
        # Two clients, so that one may keep connections to the paused master while the other is in use.
        backends = [StoreService(redis_rows(watched.url, durability=Durability.QUORUM)) for _ in range(2)]
        for backend in backends:
            await with_retries(backend.open)
        writing = Writing(backends)
        writers = [writing.write_on(backends[number % 2]) for number in range(WRITERS)]
        await asyncio.gather(writing.while_the_master_sleeps(watched), *writers)

        reader = StoreService(redis_rows(watched.url, durability=Durability.QUORUM))
        await with_retries(reader.open)
        for _, record in writing.acknowledged:
            found = await with_retries(partial(reader.get, TENANT, record.id))
            assert content(found) == content(record)
        for backend in (*backends, reader):
            await backend.close()


async def test_a_write_that_no_replica_has_is_not_acknowledged() -> None:
    with watched_redis() as watched:
        backend = StoreService(redis_rows(watched.url, durability=Durability.QUORUM))
        await with_retries(backend.open)
        master = watched.master()
        with master.client() as client:
            client.config_set("min-replicas-max-lag", 60)  # so that the master does not notice the lag by itself
        replicas = [server for server in watched.servers if server is not master]
        for replica in replicas:
            replica.pause()
        with pytest.raises(StoreUnavailable, match="too few replicas in time"):
            await backend.put(TENANT, record := draft())
        for replica in replicas:
            replica.resume()
        await with_retries(partial(backend.put, TENANT, record))
        assert content(await backend.get(TENANT, record.id)) == content(record)
        await backend.close()


async def test_with_all_replicas_required_no_replica_lacks_an_acknowledged_write() -> None:
    """The setting that the README recommends: even if the replica that has the writes is lost with the master, the
    other one has them."""
    with watched_redis() as watched:
        for server in watched.servers:
            with server.client() as client:
                client.config_set("min-replicas-to-write", 2)
                client.config_set("min-replicas-max-lag", 60)  # so that the master does not notice the lag by itself
        backend = StoreService(redis_rows(watched.url, durability=Durability.QUORUM))
        await with_retries(backend.open)
        await with_retries(partial(backend.put, TENANT, kept := draft()))
        master = watched.master()
        stale, fresh = (server for server in watched.servers if server is not master)
        stale.pause()
        with pytest.raises(StoreUnavailable, match="too few replicas in time"):
            await backend.put(TENANT, draft())
        master.kill()
        fresh.kill()
        stale.resume()
        await until(lambda: watched.master() is stale, "the stale replica as master")
        with stale.client() as client:
            client.config_set("min-replicas-to-write", 0)  # the others are lost
        assert content(await with_retries(partial(backend.get, TENANT, kept.id))) == content(kept)
        await backend.close()
