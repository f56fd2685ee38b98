"""Two stores over one database, one of which loses its connection: turns are served by the other one, and no answer
says that the store is full."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from antiphon_core.clock import SystemClock
from antiphon_store.client import StoreClient
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.postgres_server import postgres_server
from tests.support.relay import Relay, relay
from tests.support.system import serve
from tests.support.thinking_edges import PausableEngine, losable
from tests.support.waiting import WAIT_MAX_S

TURNS = 40


@dataclass
class System:
    http: Http
    relay: Relay
    """The only way of the first store to the database."""

    async def turns(self) -> Counter[str]:
        """The outcomes of turns that are stored: "200", or the message of the error."""
        answers = await asyncio.gather(*(self.http.create(model="m", input="hello") for _ in range(TURNS)))
        return Counter("200" if answer.status == 200 else str(answer.json["error"]["message"]) for answer in answers)


@pytest.fixture
async def system() -> AsyncIterator[System]:
    async with AsyncExitStack() as life:
        database = life.enter_context(postgres_server())
        way = life.enter_context(relay(f"127.0.0.1:{database.port}"))
        urls = [database.url.replace(f"127.0.0.1:{database.port}", way.endpoint), database.url]
        endpoints = [life.enter_context(serve("store", f"--store-url={url}"))[1] for url in urls]
        store = await life.enter_async_context(StoreClient("ipv4:" + ",".join(endpoints)))
        translator = losable(PausableEngine("Hello there."), SystemClock())
        edge = await life.enter_async_context(running(translator=translator, store=store))
        yield System(edge.http, way)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["refused", "silent"])
async def test_turns_are_served_by_the_store_that_has_its_database(system: System, number: signal.Signals) -> None:
    assert await system.turns() == {"200": TURNS}
    system.relay.process.send_signal(number)
    async with asyncio.timeout(WAIT_MAX_S):
        while (seen := await system.turns()) != {"200": TURNS}:
            assert not [message for message in seen if "room" in message]
    assert await system.turns() == {"200": TURNS}
