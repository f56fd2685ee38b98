"""For fakes that are easier to write as a generator: what it yields is pushed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch, Receive
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import EngineChunk


async def deliver_all(stream: AsyncGenerator[Sequence[EngineChunk], None], deliver: Deliver, flow: Flow) -> None:
    """Delivers what an engine generates, until enough was delivered."""
    async with aclosing(stream) as batches:
        async for chunks in batches:
            if not deliver(chunks):
                return
            await flow.wait_until_open()


async def send_all(stream: AsyncGenerator[Batch, None], receive: Receive, flow: Flow | None) -> None:
    """Sends what a translator makes."""
    async with aclosing(stream) as batches:
        async for batch in batches:
            if flow is not None:
                await flow.wait_until_open()
            receive(batch)
