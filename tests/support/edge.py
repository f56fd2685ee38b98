"""A running edge over a store in memory and a scripted translator, with an HTTP client to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import aiohttp

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_edge.server import EdgeServer
from antiphon_edge.settings import EdgeSettings
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from tests.support.translators import ScriptedTranslator


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return loads(self.body)

    @property
    def error(self) -> Object:
        error: Object = self.json["error"]
        return error

    @property
    def events(self) -> list[Object]:
        return events.decode(self.body)


@dataclass(frozen=True)
class RunningEdge:
    server: EdgeServer
    translator: ScriptedTranslator
    backend: MemoryBackend
    http: aiohttp.ClientSession

    async def ask(
        self, method: str, path: str, body: Object | bytes | BinaryIO | None = None, **options: Any
    ) -> Answer:
        data = dumps(body) if isinstance(body, dict) else body
        async with self.http.request(method, self.server.url + path, data=data, **options) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(status=answer.status, headers=headers, body=await answer.read())

    async def create(self, **members: Any) -> Answer:
        return await self.ask("POST", "/v1/responses", {"model": "m", "input": "hi"} | members)


@asynccontextmanager
async def running_edge(*, keep_alive_s: float = 15.0, drain_s: float = 5.0) -> AsyncIterator[RunningEdge]:
    backend, translator = MemoryBackend(), ScriptedTranslator()
    await backend.open()
    settings = EdgeSettings(port=0, keep_alive_s=keep_alive_s, drain_s=drain_s)
    server = EdgeServer(settings, StoreService(backend), translator, clock=SystemClock(), ids=RandomIds())
    await server.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield RunningEdge(server=server, translator=translator, backend=backend, http=http)
    finally:
        await server.stop()
        await backend.close()
