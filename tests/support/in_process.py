"""Antiphon in this process: edges and workers over one store and one translator, as many as a test asks for.

    async with running((model(), engine), workers=1) as system:
        response = await system.create(input="Hi", background=True)

What a test does not name is the smallest that works: a store in memory, one edge, no worker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.ids import RandomIds
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.tools import Tools
from antiphon_core.ports.translator import Translator
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from antiphon_edge.background.worker import Worker
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.server import EdgeServer
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.backend import RowBackend
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_translator.engines.base import Engine
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.http import Http

Served = tuple[ServedModel, Engine]
"""A model and the engine that runs it."""
DRAIN_S = 1.0


@dataclass(frozen=True)
class System:
    """A running system, and an HTTP client to each of its edges."""

    servers: list[EdgeServer]
    https: list[Http]
    store: FullStore
    translator: Translator
    sealer: Sealer
    tools: Tools | None = field(default=None, kw_only=True)

    @property
    def server(self) -> EdgeServer:
        return self.servers[0]

    @property
    def http(self) -> Http:
        return self.https[0]

    @property
    def url(self) -> str:
        return self.server.url

    async def create(self, **members: Any) -> Any:
        """Creates a response and returns it when it is complete. AssertionError: the request failed."""
        answer = await self.http.create(**({"model": "m", "input": "hi"} | members))
        assert answer.status == 200, answer.body
        return answer.json


def translator_of(*models: Served, clock: Clock | None = None, **settings: Any) -> TranslatorService:
    """Returns a translator of these models. `settings` are members of TranslatorSettings."""
    translator = TranslatorService(TranslatorSettings(**settings), clock=clock or SystemClock())
    for model, engine in models:
        translator.add(model, engine)
    return translator


@asynccontextmanager
async def running(
    *models: Served,
    translator: Translator | None = None,
    rows: RowBackend | str = "memory://",
    store: FullStore | None = None,
    edges: int = 1,
    workers: int = 0,
    clock: Clock | None = None,
    connection: Callable[[FullStore], FullStore] = lambda store: store,
    opens_metrics: bool = False,
    tools: Tools | None = None,
    **settings: Any,
) -> AsyncIterator[System]:
    """Runs a system that is ready to answer. `models` are served by its own translator, unless `translator` is given.
    The store is on `rows`, which are opened and closed here, unless `store` is given. `connection` wraps the store for
    each edge. `settings` are those of the edges."""
    clock = clock or SystemClock()
    async with AsyncExitStack() as life:
        store = store or await _opened(rows, life)
        if translator is None:
            own = translator_of(*models, clock=clock)
            life.push_async_callback(own.close)
            translator = own
        edge_settings = EdgeSettings(**({"port": 0, "drain_s": DRAIN_S} | settings))
        sealers = [_sealer(edge_settings, clock) for _ in range(edges)]
        servers = []
        for sealer in sealers:
            server = EdgeServer(
                edge_settings,
                connection(store),
                translator,
                clock=clock,
                ids=RandomIds(),
                sealer=sealer,
                opens_metrics=opens_metrics,
                tools=tools,
            )
            await server.start()
            life.push_async_callback(server.stop)
            servers.append(server)
        session = await life.enter_async_context(aiohttp.ClientSession())
        https = [Http(session, server.url) for server in servers]
        system = System(servers, https, store, translator, sealers[0], tools=tools)
        for _ in range(workers):
            await life.enter_async_context(worker(system))
        yield system


@asynccontextmanager
async def worker(system: System, *, slots: int = 2) -> AsyncIterator[None]:
    """Runs a worker for the background responses of a system until the block is left."""
    settings = WorkerSettings(slots=slots, drain_s=DRAIN_S)
    part = Worker(
        settings,
        system.store,
        system.translator,
        clock=SystemClock(),
        ids=RandomIds(),
        sealer=system.sealer,
        tools=system.tools,
    )
    await part.start()
    try:
        yield
    finally:
        await part.stop()


@asynccontextmanager
async def store_endpoint(rows: RowBackend) -> AsyncIterator[str]:
    """Serves a store over gRPC on these rows, which are opened and closed here. Yields its address."""
    async with AsyncExitStack() as life:
        await rows.open()
        life.push_async_callback(rows.close)
        rpc = RpcServer()
        rpc.add(STORE, handlers(StoreService(rows)), ready=rows.ready)
        life.push_async_callback(rpc.drain, 0)
        yield f"127.0.0.1:{await rpc.start('127.0.0.1', 0)}"


def _sealer(settings: EdgeSettings, clock: Clock) -> Sealer:
    """Returns a sealer with the keys of the settings, or with a key of its own."""
    path, ttl_s = settings.sealing_keys_file, settings.sealed_ttl_s
    return Sealer.of(path, ttl_s=ttl_s, clock=clock, grace_s=settings.secrets_grace_s)


async def _opened(rows: RowBackend | str, life: AsyncExitStack) -> StoreService:
    backend = row_backend(rows) if isinstance(rows, str) else rows
    await backend.open()
    life.push_async_callback(backend.close)
    return StoreService(backend)
