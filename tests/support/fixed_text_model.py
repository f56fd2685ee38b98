"""A model that knows one story and tells it from wherever its prompt ends: whoever takes a turn over hears the rest.

    FixedTextEngine(words=40, pause_s=0.01)          # an engine for a translator in this process
    fixed_text_triton(words=40)                # a Triton server for translators anywhere

`starts` has one number for each generation: how many ids of the story its prompt had already.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from antiphon_core.errors import EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import GenerationRequest, Level, TokenChunk
from tests.support.fake_triton import TOKENS, FakeTriton, Raw, final_response, input_ids_of, serving, token_response
from tests.support.prompts import ids_in
from tests.support.served_models import END_ID, tokenizer


def fixed_text(words: int) -> str:
    """So many different words."""
    return " ".join(f"word{number}" for number in range(words))


def fixed_text_ids(words: int) -> list[int]:
    return list(tokenizer().encode(fixed_text(words)))


def generated_ids_in(prompt_ids: Sequence[int], ids: Sequence[int]) -> int:
    """How many ids of a story a prompt ends with."""
    most = min(len(ids), len(prompt_ids))
    return next((count for count in range(most, 0, -1) if list(prompt_ids[-count:]) == list(ids[:count])), 0)


class FixedTextEngine:
    """Tells the story one id after the other. `told` grows with each of them; `away` says that it cannot be reached."""

    level = Level.TOKENS

    def __init__(self, *, words: int = 20, pause_s: float = 0.0) -> None:
        self.ids = fixed_text_ids(words)
        self.text = fixed_text(words)
        self.pause_s = pause_s
        self.away = False
        self.holds_at: int | None = None
        """Behind so many ids it says nothing more, until `goes_on` is set."""
        self.dies_behind: int | None = None
        """So many ids after each start it breaks down."""
        self.goes_on = asyncio.Event()
        self.starts: list[int] = []
        self.told: list[int] = []
        self.running = 0

    async def controls(self) -> frozenset[str]:
        if self.away:
            raise EngineUnavailable("The storyteller is away.")
        return ALL_CONTROLS

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        start = generated_ids_in(ids_in(request), self.ids)
        self.starts.append(start)
        self.running += 1
        try:
            for number, token_id in enumerate(self.ids[start:], start):
                if number == self.holds_at:
                    await self.goes_on.wait()
                if self.dies_behind is not None and number == start + self.dies_behind:
                    raise EngineUnavailable("The storyteller broke down.")
                await asyncio.sleep(self.pause_s)
                self.told.append(number)
                await flow.wait_until_open()
                if not deliver([TokenChunk((token_id,))]):
                    return
            deliver([TokenChunk((END_ID,))])
        finally:
            self.running -= 1

    async def ready(self) -> None:
        await self.controls()

    async def close(self) -> None:
        self.away = True


@dataclass
class FixedTextTriton(FakeTriton):
    """The storytelling model behind Triton's protocol, for translators in other processes. `pause_s` comes before
    each id."""

    story: Sequence[int] = ()
    pause_s: float = 0.0
    holds_at: int | None = None
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    starts: list[tuple[Sequence[int], int]] = field(default_factory=list)
    """For each generation its prompt without the story, and how much of the story the prompt had."""
    running: int = 0

    def hold(self, *, at: int) -> None:
        """Behind so many ids it says nothing more, until `go_on`."""
        self.go_on()
        self.holds_at, self.goes_on = at, asyncio.Event()

    def go_on(self) -> None:
        self.holds_at = None
        self.goes_on.set()

    def began_anew(self) -> Counter[Sequence[int]]:
        """How often each prompt was answered from the beginning."""
        return Counter(prompt for prompt, start in self.starts if start == 0)

    async def ModelStreamInfer(self, requests: AsyncIterator[Raw], context: Any) -> AsyncIterator[Raw]:
        async for request in requests:
            prompt = input_ids_of(request)
            start = generated_ids_in(prompt, self.story)
            self.starts.append((tuple(prompt[: len(prompt) - start]), start))
            self.running += 1
            try:
                for number, token_id in enumerate(self.story[start:], start):
                    if number == self.holds_at:
                        await self.goes_on.wait()
                    await asyncio.sleep(self.pause_s)
                    yield token_response([token_id])
                yield final_response()
            finally:
                self.running -= 1


@asynccontextmanager
async def fixed_text_triton(words: int) -> AsyncIterator[FixedTextTriton]:
    triton = FixedTextTriton(TOKENS, story=fixed_text_ids(words))
    async with serving(triton):
        yield triton
