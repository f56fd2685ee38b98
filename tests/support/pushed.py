"""Turns streams of callbacks into asynchronous generators, which tests read with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch, Resume, Translator, Turn
from antiphon_translator.engines.base import Engine
from antiphon_translator.generation import EngineChunk, GenerationRequest, TokenChunk
from tests.support.chunks import only

T = TypeVar("T")


async def pulled(run: Callable[[Callable[[T], bool]], Coroutine[Any, Any, None]]) -> AsyncGenerator[T, None]:
    """Yields the values that `run` passes to its callback. Closing the generator cancels `run`."""
    received: asyncio.Queue[T] = asyncio.Queue()

    def receive(each: T) -> bool:
        received.put_nowait(each)
        return True

    running = asyncio.ensure_future(run(receive))
    try:
        while True:
            coming = asyncio.ensure_future(received.get())
            await asyncio.wait([running, coming], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                break
            yield coming.result()
        while not received.empty():
            yield received.get_nowait()
        running.result()
    finally:
        running.cancel()
        await asyncio.wait([running])


def generated(
    translator: Translator, turn: Turn, *, resume: Resume | None = None, checkpoints: bool = False
) -> AsyncGenerator[Batch, None]:
    """Returns a generator of the batches of a turn. Closing it stops the model."""

    async def run(receive: Callable[[Batch], bool]) -> None:
        def take(batch: Batch) -> None:
            receive(batch)

        await translator.generate(turn, take, resume=resume, checkpoints=checkpoints)

    return pulled(run)


class Deliveries:
    """A `deliver` callback that keeps its chunks, and stops the stream after `most` deliveries."""

    def __init__(self, most: int = 10**9) -> None:
        self.received: list[Sequence[EngineChunk]] = []
        self.came = asyncio.Event()
        self._most = most

    def __call__(self, chunks: Sequence[EngineChunk]) -> bool:
        self.received.append(chunks)
        self.came.set()
        return len(self.received) < self._most

    @property
    def ids(self) -> list[int]:
        return [token_id for chunks in self.received for chunk in only(TokenChunk, chunks) for token_id in chunk.ids]


def chunks(engine: Engine, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
    """Returns a generator of the chunks of a generation, grouped by delivery. Closing it stops the generation."""

    async def run(deliver: Callable[[Sequence[EngineChunk]], bool]) -> None:
        await engine.generate(request, deliver, Flow())

    return pulled(run)
