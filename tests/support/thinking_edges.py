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

from antiphon_core.clock import Clock, ManualClock, SystemClock
from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Batch, EndedTurn, Model, Receive, Resume, Turn
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import FaultyStore
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import GenerationRequest, Level, TokenChunk
from antiphon_translator.service import TranslatorService
from tests.support.in_process import System, running, translator_of
from tests.support.prompts import ids_in
from tests.support.reasoning_model import END_ID, TOKENIZER, reasoning_model
from tests.support.small_vocabulary import ids_of


class PausableEngine:
    """An engine that generates `output` id by id, and continues after the part of it that the prompt ends with."""

    level = Level.TOKENS

    def __init__(self, *output: str) -> None:
        self.set_output(*output)
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

    def set_output(self, *output: str) -> None:
        self.ids = [*ids_of(TOKENIZER, *output), END_ID]

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.requests.append(request)
        ended = False
        try:
            for number in range(self._ids_in(request), len(self.ids)):
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

    def _ids_in(self, request: GenerationRequest) -> int:
        """Returns the number of ids of the output that the prompt ends with."""
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

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        return await self.inner.explain_cache(now, compared)

    async def count_tokens(self, turn: Turn) -> int:
        return await self.inner.count_tokens(turn)

    async def check(self, turn: Turn) -> None:
        await self.inner.check(turn)

    async def models(self) -> Sequence[Model]:
        return await self.inner.models()

    async def ready(self) -> None:
        await self.inner.ready()


def losable(engine: PausableEngine, clock: Clock | None = None) -> LosableTranslator:
    return LosableTranslator(translator_of((reasoning_model(), engine), clock=clock or ManualClock()))


@dataclass(frozen=True)
class Edges(System):
    """Edges over one store, with the model and the translator behind them."""

    translator: LosableTranslator
    engine: PausableEngine
    backend: FaultyStore

    @property
    def prompt(self) -> str:
        """Returns the last prompt of the model."""
        return TOKENIZER.decode(ids_in(self.engine.requests[-1]))


@asynccontextmanager
async def thinking_edges(
    *output: str, count: int = 1, rows: RowBackend | None = None, **settings: Any
) -> AsyncIterator[Edges]:
    """Runs edges over one store. `rows` are those of the store, by default in memory."""
    engine = PausableEngine(*output)
    translator = losable(engine, SystemClock())
    store = StoreService(rows or row_backend("memory://"))
    backend = FaultyStore(store)

    def connection(_store: FullStore) -> FullStore:
        return FaultyStore(store, backend.planned)

    async with AsyncExitStack() as life:
        await backend.open()
        life.push_async_callback(backend.close)
        life.push_async_callback(translator.inner.close)
        system = await life.enter_async_context(
            running(translator=translator, store=backend, edges=count, connection=connection, **settings)
        )
        yield Edges(**vars(system), engine=engine, backend=backend)
