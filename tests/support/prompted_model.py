"""An engine whose answers are computed from its prompts, one token at a time: as ids, or as text like engines that
accept images."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    Level,
    ReportedUsage,
    TextChunk,
    TokenChunk,
)
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.prompts import ids_in, images_in, text_in
from tests.support.small_vocabulary import ids_of


class Answer(Protocol):
    """Returns the answer to a prompt in pieces. Each control token is one piece, and the end token is the last one."""

    def __call__(self, prompt: str, *, images: int, guide: Guide | None) -> Sequence[str]: ...


class PromptedModel:
    """The engine. It records its requests and prompts."""

    def __init__(self, answer: Answer, tokenizer: ModelTokenizer, level: Level = Level.TOKENS) -> None:
        self.level = level
        self.requests: list[GenerationRequest] = []
        self.prompts: list[str] = []
        self.is_recording = True
        self.pause_s = 0.0
        """The pause before each token."""
        self._answer = answer
        self._tokenizer = tokenizer
        self._closed = False

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS | {"guide", "text_guide", "stop"} | ({"images"} if self.level is Level.TEXT else set())

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        is_text = self.level is Level.TEXT
        prompt = text_in(request) if is_text else self._tokenizer.decode(ids_in(request))
        if self.is_recording:
            self.requests.append(request)
            self.prompts.append(prompt)
        *said, end = self._answer(prompt, images=len(images_in(request)), guide=request.guide)
        fails = self.fails(prompt)
        chunks = self._chunks(said if is_text or fails else [*said, end])
        for chunk in chunks[: request.max_tokens]:
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
            if flow.is_paused:
                await flow.wait_until_open()
            if not deliver([chunk]):
                return
        if fails:
            raise EngineFault("The script says to fail.")
        if is_text:
            finish = FinishReason.STOP if len(chunks) <= request.max_tokens else FinishReason.LENGTH
            usage = ReportedUsage(len(prompt), min(len(chunks), request.max_tokens))
            deliver([TextChunk(finish=finish, usage=usage)])

    def fails(self, prompt: str) -> bool:
        """Returns whether the model fails after its answer, which then has no end."""
        return False

    def _chunks(self, said: Sequence[str]) -> Sequence[EngineChunk]:
        """Returns the answer in the smallest chunks of the level."""
        if self.level is Level.TOKENS:
            return [TokenChunk((token_id,)) for token_id in ids_of(self._tokenizer, *said)]
        return [TextChunk(letter) for letter in "".join(said)]

    async def ready(self) -> None:
        if self._closed:
            raise EngineUnavailable("The model is closed.")

    async def close(self) -> None:
        self._closed = True
