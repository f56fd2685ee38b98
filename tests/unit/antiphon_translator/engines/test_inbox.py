from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from antiphon_core.errors import EngineFault, EngineTimeout
from antiphon_core.limits import ENGINE_QUEUE_MESSAGES_MAX
from antiphon_translator.engines.inbox import Inbox, Patience
from antiphon_translator.generation import EngineChunk

PATIENCE = Patience("The server", first_s=0.2, next_s=0.1)


async def source(*steps: int | float | Exception) -> AsyncGenerator[EngineChunk, None]:
    """Whole numbers are ids, fractions seconds."""
    for step in steps:
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
        else:
            yield EngineChunk((step,))


async def test_what_is_there_is_one_batch() -> None:
    inbox = Inbox(source(1, 2, 3), PATIENCE)
    await inbox.ended(1)
    assert [batch async for batch in inbox.batches()] == [[EngineChunk((1,)), EngineChunk((2,)), EngineChunk((3,))]]
    await inbox.close()


async def test_what_came_before_an_error_is_delivered() -> None:
    inbox = Inbox(source(1, EngineFault("out of paper")), PATIENCE)
    seen: list[EngineChunk] = []
    with pytest.raises(EngineFault, match="out of paper"):
        async for batch in inbox.batches():
            seen += batch
    assert seen == [EngineChunk((1,))]


@pytest.mark.parametrize(
    ("steps", "words"), [((9.0,), "no first token within 0.2"), ((1, 9.0), "no next token within 0.1")]
)
async def test_silence_has_its_limits(steps: tuple[int | float, ...], words: str) -> None:
    inbox = Inbox(source(*steps), PATIENCE)
    with pytest.raises(EngineTimeout, match=f"The server sent {words}"):
        async for _ in inbox.batches():
            pass
    await inbox.close()


async def test_nothing_is_read_that_nobody_takes_and_closing_ends_the_source() -> None:
    given, closed = [], asyncio.Event()

    async def endless() -> AsyncGenerator[EngineChunk, None]:
        try:
            while True:
                given.append(1)
                yield EngineChunk((1,))
        finally:
            closed.set()

    inbox = Inbox(endless(), PATIENCE)
    await asyncio.sleep(0.05)
    assert len(given) == ENGINE_QUEUE_MESSAGES_MAX + 1
    await inbox.close()
    assert closed.is_set()
