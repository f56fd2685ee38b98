"""All of Antiphon in one process without a GPU: edge, worker, store in memory, translator and scripted models.

A model reads its prompt like any model, and answers by the simple rules of scripted_answers.py. MODEL gets token ids,
SEER gets text, like engines that accept images. `python -m tests.support.scripted_system` serves both until it is
stopped; scripted_up.py has the models on a real Triton.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Literal

from antiphon_edge.server import EdgeServer
from antiphon_translator.generation import (
    Guide,
    Level,
)
from antiphon_translator.media.sight import Sight
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.http import Http
from tests.support.in_a_thread import in_a_thread
from tests.support.in_process import running
from tests.support.prompted_model import PromptedModel
from tests.support.scripted_answers import CONTROL_TOKENS, END, IMAGE, TEMPLATE, answer, gives_up
from tests.support.served_models import model
from tests.support.small_vocabulary import byte_tokenizer, ids_of

MODEL = "m"
SEER = "seer"
TOKENIZER = byte_tokenizer(*CONTROL_TOKENS)
(_END_ID,) = ids_of(TOKENIZER, END)


class ScriptedModel(PromptedModel):
    """An engine that answers by scripted_answers.py."""

    def __init__(self, level: Level = Level.TOKENS, *, keeps: bool = True) -> None:
        """Makes the engine. With `keeps` it records its requests."""
        super().__init__(_answer, TOKENIZER, level)
        self.is_recording = keeps

    def fails(self, prompt: str) -> bool:
        return gives_up(prompt)


def _answer(prompt: str, *, images: int, guide: Guide | None) -> list[str]:
    kind_and_text = None if guide is None else (guide.kind.value, guide.text)
    return [*answer(prompt, images=images, guide=kind_and_text), END]


@cache
def _template() -> JinjaTemplate:
    return JinjaTemplate(TEMPLATE, special_tokens={}, image_token=IMAGE)


def _model(name: str, sight: Sight, context_length: int) -> ServedModel:
    return model(
        name=name,
        prompt=PromptEncoder(_template(), TOKENIZER),
        tokenizer=TOKENIZER,
        stop_ids=(_END_ID,),
        syntax=TokenSyntax(families.load("hermes"), TOKENIZER),
        context_length=context_length,
        sight=sight,
    )


def scripted_models(context_length: int = 100_000, *, keeps: bool = True) -> list[tuple[ServedModel, ScriptedModel]]:
    """Returns MODEL and SEER with their engines."""
    return [
        (_model(MODEL, Sight.REFUSE, context_length), ScriptedModel(keeps=keeps)),
        (_model(SEER, Sight.NATIVE, context_length), ScriptedModel(Level.TEXT, keeps=keeps)),
    ]


@dataclass(frozen=True)
class ScriptedSystem:
    """A running scripted system."""

    server: EdgeServer
    model: ScriptedModel
    seer: ScriptedModel
    http: Http

    @property
    def url(self) -> str:
        return self.server.url


@asynccontextmanager
async def scripted_system(
    *, port: int = 0, context_length: int = 100_000, hosted_tools: Literal["refuse", "drop"] = "refuse"
) -> AsyncIterator[ScriptedSystem]:
    """Runs a scripted system that is ready to answer."""
    models = scripted_models(context_length)
    (_, engine), (_, seer) = models
    async with running(*models, workers=1, port=port, hosted_tools=hosted_tools) as system:
        yield ScriptedSystem(system.server, engine, seer, system.http)


@contextmanager
def scripted_system_in_a_thread() -> Iterator[str]:
    """Runs a scripted system in its own thread, for blocking clients. Yields its URL."""
    with in_a_thread(scripted_system()) as system:
        yield system.url


async def _serve(port: int) -> None:
    async with scripted_system(port=port) as system:
        print(system.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
