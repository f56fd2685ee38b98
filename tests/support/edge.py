"""A running edge over a store in memory and a scripted translator, with an HTTP client to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Model
from antiphon_edge.server import EdgeServer
from antiphon_store.service import StoreService
from tests.support.http import Answer, Http
from tests.support.in_process import running
from tests.support.stores import ReachableRows
from tests.support.translators import ScriptedTranslator


@dataclass(frozen=True)
class RunningEdge:
    server: EdgeServer
    translator: ScriptedTranslator
    backend: ReachableRows
    http: Http

    async def ask(
        self, method: str, path: str, body: Object | bytes | BinaryIO | None = None, **options: Any
    ) -> Answer:
        return await self.http.ask(method, path, body, **options)

    async def create(self, **members: Any) -> Answer:
        return await self.http.create(**({"model": "m", "input": "hi"} | members))

    def hold_models(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Lets requests for the list of models wait. Returns an event that is set when the list was requested, and an
        event that releases it."""
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def models() -> list[Model]:
            asked.set()
            await go_on.wait()
            return []

        self.translator.models = models  # type: ignore[method-assign]
        return asked, go_on

    @property
    def store(self) -> StoreService:
        """The store of the edge, as another replica uses it."""
        return StoreService(self.backend)


@asynccontextmanager
async def running_edge(
    *, tenants: bool = False, clock: Clock | None = None, drain_s: float = 30.0, **settings: Any
) -> AsyncIterator[RunningEdge]:
    """Runs an edge. With `tenants` the header TENANT_HEADER names the tenant of a request, as from a proxy."""
    clock = clock or SystemClock()
    backend, translator = ReachableRows(clock), ScriptedTranslator()
    settings |= {"trusted_proxies": ("127.0.0.1/32",)} if tenants else {}
    async with running(translator=translator, rows=backend, clock=clock, drain_s=drain_s, **settings) as system:
        yield RunningEdge(system.server, translator, backend, system.http)
