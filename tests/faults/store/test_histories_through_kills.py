"""The database is killed and restarted while clients write: their history, with its lost answers, is linearizable.
Writes acknowledged before the kill are seen after it, and writes without an answer happened once or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pytest

from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.histories import Client, Key, Recorder, new_clients, new_keys
from antiphon_store.testing.linearizability import UNKNOWN
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.redis_servers import NO_FILES, RedisServer, redis_rows, redis_server
from tests.support.volume import volume

CLIENTS, KILLS = 12, 2
STEPS_BETWEEN = volume(250, 400)  # of all clients together
RESPONSES, SESSIONS = 6, 4

Server = PostgresServer | RedisServer


def rows_of(server: Server, durability: Durability) -> RowBackend:
    if isinstance(server, RedisServer):
        return redis_rows(server.url, durability=durability)
    return PostgresRows(server.url, durability=durability)


@dataclass(frozen=True, slots=True)
class Show:
    """Clients that call a database which is killed repeatedly. A client without an answer waits until the database is
    up, because calls on a dead database would only fail."""

    server: Server
    clients: list[Client]
    keys: list[Key]
    up: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def live(self, client: Client) -> None:
        while not self.over.is_set():
            if await client.act(client.dice.choice(self.keys)) == UNKNOWN:
                await self.up.wait()

    async def kill_by_turns(self) -> None:
        """Kills the server while calls are in flight. Ends after enough calls since the last restart."""
        for number in range(KILLS + 1):
            self.up.set()
            answered = self.answered()
            while self.answered() < answered + STEPS_BETWEEN:
                await asyncio.sleep(0.005)
            if number < KILLS:
                self.up.clear()
                await asyncio.to_thread(self.server.kill)
                await asyncio.to_thread(self.server.start)
        self.over.set()

    def answered(self) -> int:
        return sum(each.answer != UNKNOWN for each in self.clients[0].recorder.operations)


async def history_through_kills(server: Server, durability: Durability) -> Recorder:
    stores = [StoreService(rows_of(server, durability)) for _ in range(2)]
    for store in stores:
        await store.open()
    clients = new_clients(stores, "t", 1, CLIENTS)
    show = Show(server, clients, new_keys(RESPONSES, SESSIONS))
    await asyncio.wait_for(asyncio.gather(show.kill_by_turns(), *map(show.live, clients)), 150)
    for store in stores:
        await store.close()
    return clients[0].recorder


@pytest.mark.parametrize("make", [postgres_server, redis_server])
async def test_a_history_through_kills_is_linearizable(make: Callable[[], AbstractContextManager[Server]]) -> None:
    with make() as server:
        recorder = await history_through_kills(server, Durability.DISK)
    assert any(each.answer == UNKNOWN for each in recorder.operations)
    recorder.require_linearizable()


async def test_a_server_that_loses_acknowledged_writes_is_noticed() -> None:
    with redis_server(NO_FILES) as server:
        recorder = await history_through_kills(server, Durability.MEMORY)
    with pytest.raises(AssertionError, match="no order explains"):
        recorder.require_linearizable()
