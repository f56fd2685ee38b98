"""Edges over one store, with a real translator and a model whose output a test sets.

The model works with ids and continues after the ids in a request. Translators can be lost in mid-stream, the model can
be paused, and each edge can die without cleanup.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from antiphon_core.clock import Clock, ManualClock, SystemClock
from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ids import RandomIds
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Batch, Model, Receive, Resume, Turn
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.background.worker import Worker
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.server import EdgeServer
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_edge.turn_settings import SEALED_TTL_S
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import FaultyStore
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import GenerationRequest, Level, TokenChunk
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.http import Http
from tests.support.prompts import ids_in
from tests.support.reasoning_model import END_ID, TOKENIZER, reasoning_model
from tests.support.small_vocabulary import ids_of


class Sayer:
    """An engine that generates `said` id by id, and continues after the part of it that the prompt ends with."""

    level = Level.TOKENS

    def __init__(self, *said: str) -> None:
        self.say(*said)
        self.requests: list[GenerationRequest] = []
        self.stopped = asyncio.Event()
        """Set when a generation was closed before its end."""
        self.pause_at: int | None = None
        """After so many ids the engine waits for `go`."""
        self.go = asyncio.Event()
        self.paused = asyncio.Event()
        """Set while the engine waits."""
        self.fault: Exception | None = None
        """Raised after `pause_at` ids, instead of waiting."""

    def say(self, *said: str) -> None:
        self.ids = [*ids_of(TOKENIZER, *said), END_ID]

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.requests.append(request)
        ended = False
        try:
            for number in range(self._said_in(request), len(self.ids)):
                if number == self.pause_at and self.fault is not None:
                    ended = True
                    raise self.fault
                if number == self.pause_at:
                    self.paused.set()
                    await self.go.wait()
                await flow.wait_until_open()
                if not deliver([TokenChunk((self.ids[number],))]):
                    break
                await asyncio.sleep(0)
            ended = True
        finally:
            if not ended:
                self.stopped.set()

    def _said_in(self, request: GenerationRequest) -> int:
        """Returns the number of ids of `said` that the prompt ends with."""
        prompt = list(ids_in(request))
        return next(n for n in range(len(self.ids), -1, -1) if prompt[len(prompt) - n :] == self.ids[:n])

    async def ready(self) -> None:
        """Does nothing: the engine is always ready."""

    async def close(self) -> None:
        """Does nothing: the engine has no connection."""


@dataclass
class LosableTranslator:
    """A translator that is lost after so many batches, once for each number in `losses`."""

    inner: TranslatorService
    losses: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    resumes: list[Resume | None] = field(default_factory=list)

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        self.turns.append(turn)
        self.resumes.append(resume)
        left = self.losses.pop(0) if self.losses else None
        lost = asyncio.Event()

        def take(batch: Batch) -> None:
            nonlocal left
            if left == 0:
                lost.set()
            if lost.is_set():
                return
            left = None if left is None else left - 1
            receive(batch)

        running = asyncio.ensure_future(
            self.inner.generate(turn, take, flow=flow, resume=resume, checkpoints=checkpoints)
        )
        losing = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait([running, losing], return_when=asyncio.FIRST_COMPLETED)
            if lost.is_set():
                raise TranslatorUnavailable("Socket closed")
            running.result()
        finally:
            for task in (running, losing):
                task.cancel()
            await asyncio.wait([running, losing])

    async def count_tokens(self, turn: Turn) -> int:
        return await self.inner.count_tokens(turn)

    async def check(self, turn: Turn) -> None:
        await self.inner.check(turn)

    async def models(self) -> Sequence[Model]:
        return await self.inner.models()

    async def ready(self) -> None:
        await self.inner.ready()


def losable(sayer: Sayer, clock: Clock | None = None) -> LosableTranslator:
    service = TranslatorService(TranslatorSettings(), clock=clock or ManualClock())
    service.add(reasoning_model(), sayer)
    return LosableTranslator(service)


@dataclass
class Edges:
    """Edges over one store, and an HTTP client to each."""

    https: list[Http]
    servers: list[EdgeServer]
    sayer: Sayer
    translator: LosableTranslator
    backend: FaultyStore
    store: FullStore

    @property
    def http(self) -> Http:
        return self.https[0]

    async def create(self, **members: Any) -> Any:
        """Creates a response and returns it when it is complete."""
        answer = await self.http.create(**({"model": "m", "input": "hi"} | members))
        assert answer.status == 200, answer.body
        return answer.json

    @property
    def prompt(self) -> str:
        """Returns the last prompt of the model."""
        return TOKENIZER.decode(ids_in(self.sayer.requests[-1]))


@asynccontextmanager
async def thinking_edges(
    *said: str, count: int = 1, engine: RowBackend | None = None, drain_s: float = 1.0, **door: Any
) -> AsyncIterator[Edges]:
    """Runs edges over one store. `engine` is the backend of the store, by default memory; `door` are members of
    AccessSettings."""
    rows, clock = engine or row_backend("memory://"), SystemClock()
    backend = FaultyStore(StoreService(rows))
    sayer = Sayer(*said)
    translator = losable(sayer, clock)
    async with AsyncExitStack() as stack:
        await backend.open()
        stack.push_async_callback(backend.close)
        stack.push_async_callback(translator.inner.close)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        servers = []
        for _ in range(count):
            settings = EdgeSettings(port=0, drain_s=drain_s, **door)
            store = FaultyStore(StoreService(rows), backend.planned)
            server = EdgeServer(settings, store, translator, clock=clock, ids=RandomIds())
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        https = [Http(session, server.url) for server in servers]
        yield Edges(https, servers, sayer, translator, backend, backend)


@asynccontextmanager
async def worker(edges: Edges) -> AsyncIterator[None]:
    """Runs a worker for the background responses of these edges until the block is left."""
    clock = SystemClock()
    sealer = Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=clock)
    settings = WorkerSettings(slots=2, drain_s=1)
    part = Worker(settings, edges.store, edges.translator, clock=clock, ids=RandomIds(), sealer=sealer)
    await part.start()
    try:
        yield
    finally:
        await part.stop()
