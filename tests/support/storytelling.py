"""A model that knows one story and tells it from wherever its prompt ends: whoever takes a turn over hears the rest.

    StoryEngine(words=40, pause_s=0.01)          # an engine for a translator in this process

`starts` has one number for each generation: how many ids of the story its prompt had already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level
from tests.support.served_models import END_ID, tokenizer


def story(words: int) -> str:
    """So many different words."""
    return " ".join(f"word{number}" for number in range(words))


def story_ids(words: int) -> list[int]:
    return list(tokenizer().encode(story(words)))


def told_in(prompt_ids: Sequence[int], ids: Sequence[int]) -> int:
    """How many ids of a story a prompt ends with."""
    most = min(len(ids), len(prompt_ids))
    return next((count for count in range(most, 0, -1) if list(prompt_ids[-count:]) == list(ids[:count])), 0)


class StoryEngine:
    """Tells the story one id after the other. `told` grows with each of them; `away` says that it cannot be reached."""

    level = Level.TOKENS

    def __init__(self, *, words: int = 20, pause_s: float = 0.0) -> None:
        self.ids = story_ids(words)
        self.text = story(words)
        self.pause_s = pause_s
        self.away = False
        self.holds_at: int | None = None
        """Behind so many ids it says nothing more, until `goes_on` is set."""
        self.goes_on = asyncio.Event()
        self.starts: list[int] = []
        self.told: list[int] = []
        self.running = 0

    async def controls(self) -> frozenset[str]:
        if self.away:
            raise EngineUnavailable("The storyteller is away.")
        return ALL_CONTROLS

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        start = told_in(request.prompt_ids, self.ids)
        self.starts.append(start)
        self.running += 1
        try:
            for number, token_id in enumerate(self.ids[start:], start):
                if number == self.holds_at:
                    await self.goes_on.wait()
                await asyncio.sleep(self.pause_s)
                self.told.append(number)
                yield [EngineChunk((token_id,))]
            yield [EngineChunk((END_ID,))]
        finally:
            self.running -= 1

    async def ready(self) -> None:
        await self.controls()

    async def close(self) -> None:
        self.away = True
