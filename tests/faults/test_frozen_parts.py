"""Each process of a fleet, and each database, is stopped (SIGSTOP) for a while under load: streams come to one end, new
requests are answered or refused at once, jobs end, and nothing is generated twice.

An edge is the connection of its own clients: its streams go on when it wakes, those under a key on any other edge. The
engine is behind a relay that is stopped in its place.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps
from tests.support.http import Http
from tests.support.patience import PATIENCE_S
from tests.support.postgres_server import postgres_server
from tests.support.redis_servers import redis_server
from tests.support.relay import relay
from tests.support.replicas import Replicas, fleet
from tests.support.storytelling import StorytellingTriton, story, storytelling_triton
from tests.support.volume import volume

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

WORDS = 30
FREEZES_S = volume((1, 5), (1, 5, 30, 100))
SOON_S = 2.0
PAUSE_S = 0.5  # between new requests
TERMINAL = ("response.completed", "response.failed", "response.incomplete")

Freeze = Callable[[bool], None]


@dataclass
class Fleet:
    """A running fleet, and how each part of it is stopped (True) and woken."""

    replicas: Replicas
    triton: StorytellingTriton
    parts: dict[str, Freeze]

    @contextmanager
    def frozen(self, part: str) -> Iterator[None]:
        self.parts[part](True)
        try:
            yield
        finally:
            self.parts[part](False)


def _by_signal(pid: int) -> Freeze:
    return lambda stops: os.kill(pid, signal.SIGSTOP if stops else signal.SIGCONT)


def _database(life: ExitStack, name: str) -> tuple[str, Freeze]:
    if name == "redis":
        redis = life.enter_context(redis_server())
        return redis.url, lambda stops: redis.pause() if stops else redis.resume()
    postgres = life.enter_context(postgres_server())
    return postgres.url, lambda stops: postgres.pause() if stops else postgres.resume()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["redis", "postgres"])
async def town(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as life:
        below = life.enter_context(ExitStack())
        triton = await life.enter_async_context(storytelling_triton(WORDS))
        between = below.enter_context(relay(triton.endpoint))
        url, freeze_database = _database(below, request.param)
        folder = tmp_path_factory.mktemp("fleet")
        replicas = await life.enter_async_context(fleet(folder, between.endpoint, store_url=url))
        targets = ("edge", "translator", "store", "worker")
        parts = {each: _by_signal(replicas.pods[replicas.of(each)[0]].command.process.pid) for each in targets}
        triton.pause_s = 0.1
        yield Fleet(replicas, triton, {**parts, "engine": _by_signal(between.process.pid), "database": freeze_database})


@dataclass
class Call:
    """A request for a stream, and what came of it."""

    name: str
    begun_s: float = 0.0
    soon_s: float | None = None
    """When its first event came, or its refusal."""
    status: int = 0
    body: bytes = b""
    log: list[Object] = field(default_factory=list)
    ended_s: float = 0.0

    async def run(self, session: aiohttp.ClientSession, url: str, headers: dict[str, str], **members: Any) -> None:
        loop = asyncio.get_running_loop()
        self.begun_s = loop.time()
        body = dumps({"model": "m", "input": self.name, "stream": True} | members)
        async with session.post(f"{url}/v1/responses", data=body, headers=headers) as answer:
            self.status = answer.status
            pending = b""
            async for chunk in answer.content.iter_any():
                if self.soon_s is None:
                    self.soon_s = loop.time() - self.begun_s
                whole, separator, pending = (pending + chunk).rpartition(b"\n\n")
                self.log += events.decode(whole + separator)
            self.body = pending
        self.ended_s = loop.time() - self.begun_s

    def __str__(self) -> str:
        end = self.log[-1]["type"] if self.log else self.body[:120]
        return f"{self.name}: {self.status} first {self.soon_s} ended {self.ended_s:.1f} {len(self.log)} {end}"
