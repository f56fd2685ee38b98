"""Chunks on their way from a connection to whoever generates: read ahead, in batches, with time limits.

A reader task moves chunks into a bounded queue as they come, and a batch is whatever the queue holds: no timer, no
delay. When nobody takes batches the queue fills up, the reader stops reading and flow control stops the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from antiphon_core.errors import EngineTimeout
from antiphon_core.limits import ENGINE_QUEUE_MESSAGES_MAX
from antiphon_translator.generation import EngineChunk

_END = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may say nothing, in seconds, and how it is called when it did."""

    server: str
    first_s: float
    next_s: float


class Inbox:
    """Reads `source` in a task of its own, from now on until it ends or `close`."""

    def __init__(self, source: AsyncGenerator[EngineChunk, None], patience: Patience) -> None:
        self._patience = patience
        self._begun = False
        self._items: asyncio.Queue[EngineChunk | Exception | None] = asyncio.Queue(ENGINE_QUEUE_MESSAGES_MAX)
        self._reader = asyncio.create_task(self._read(source))

    async def batches(self) -> AsyncGenerator[Sequence[EngineChunk], None]:
        """Everything that is there, again and again. Raises what the source raised, and EngineTimeout."""
        while True:
            ready = await self._next()
            chunks = [item for item in ready if isinstance(item, EngineChunk)]
            if chunks:
                self._begun = True
                yield chunks
            if ready[-1] is _END:
                return
            if isinstance(ready[-1], Exception):
                raise ready[-1]

    async def ended(self, timeout_s: float) -> None:
        """Waits until the source has ended, but no longer than so."""
        await asyncio.wait([self._reader], timeout=timeout_s)

    async def close(self) -> None:
        """Stops the reader; what it has read is lost."""
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def _next(self) -> list[EngineChunk | Exception | None]:
        """Everything that is in the queue, waiting for the first."""
        if self._items.empty():
            limit_s = self._patience.next_s if self._begun else self._patience.first_s
            try:
                async with asyncio.timeout(limit_s):
                    ready = [await self._items.get()]
            except TimeoutError as error:
                which = "next" if self._begun else "first"
                raise EngineTimeout(f"{self._patience.server} sent no {which} token within {limit_s:g} s.") from error
        else:
            ready = [self._items.get_nowait()]
        while not self._items.empty():
            ready.append(self._items.get_nowait())
        return ready

    async def _read(self, source: AsyncGenerator[EngineChunk, None]) -> None:
        """The last thing in the queue is _END or what went wrong."""
        try:
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    await self._items.put(chunk)
            await self._items.put(_END)
        except Exception as error:  # noqa: BLE001 - raised again where the queue is read
            await self._items.put(error)
