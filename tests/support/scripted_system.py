"""All of Antiphon in one process, without a GPU: edge, worker, store in memory, translator, models that are scripts.

A model reads its prompt as any model would, and answers by simple rules: it calls the first function that it is offered
unless it was just told a result, counts the images it was shown, thinks when it is asked to, gives up after "Fail.",
and says its line otherwise. MODEL is spoken to in token ids, SEER in text, as engines that take images are.
`python -m tests.support.scripted_system` serves both until it is stopped.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice

import aiohttp

from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import dumps
from antiphon_edge.background.worker import Worker
from antiphon_edge.sealed.sealing import SEALED_TTL_S, Sealer, SealingKeys
from antiphon_edge.server import EdgeServer
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    Usage,
)
from antiphon_translator.media.sight import Sight
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_parser import TokenSyntax
from antiphon_translator.prompt import PromptEncoder
from antiphon_translator.served_model import ServedModel
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.http import Http
from tests.support.served_models import model
from tests.support.small_vocabulary import byte_tokenizer, ids_of

MODEL = "m"
SEER = "seer"
LINE = "Hello there, friend."
THOUGHT = "Let me see."
PLACE = '{"city":"Rome"}'
"""What the model says when its answer has to be JSON."""

IMAGE = "<|image|>"
_TOKENIZER = byte_tokenizer("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", IMAGE)
(_END_ID,) = ids_of(_TOKENIZER, "<|im_end|>")
_TEMPLATE = """
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{%- if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content or [] %}
{%- if part.type == 'image' %}<|image|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_MESSAGE = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)
_FUNCTION = re.compile(r'^\{"type": "function".*"name": "([\w-]+)"', re.MULTILINE)


class ScriptedModel:
    """An engine that answers what its prompt asks for, one token at a time."""

    def __init__(self, level: Level = Level.TOKENS) -> None:
        self.level = level
        self.requests: list[GenerationRequest] = []
        self.prompts: list[str] = []
        self.pause_s = 0.0
        """Before each token."""
        self._closed = False

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS | {"guide", "stop"} | ({"images"} if self.level is Level.TEXT else set())

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        prompt = _TOKENIZER.decode(request.prompt_ids) if self.level is Level.TOKENS else request.prompt_text
        self.requests.append(request)
        self.prompts.append(prompt)
        said = _answer(prompt, request.guide, images=len(request.images))
        for chunk in islice(self._chunks(said), request.max_tokens):
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
            if _END_ID in chunk.token_ids and prompt.endswith("Fail.<|im_end|>\n<|im_start|>assistant\n"):
                raise EngineFault("The script says to fail.")
            yield [chunk]
        if self.level is Level.TEXT:
            length = len("".join(said))
            finish = FinishReason.STOP if length <= request.max_tokens else FinishReason.LENGTH
            yield [EngineChunk(finish=finish, usage=Usage(len(prompt), min(length, request.max_tokens)))]

    def _chunks(self, said: Sequence[str]) -> Iterator[EngineChunk]:
        """What is said, cut as small as the level allows."""
        if self.level is Level.TOKENS:
            yield from (EngineChunk((token_id,)) for token_id in (*ids_of(_TOKENIZER, *said), _END_ID))
        else:
            yield from (EngineChunk(text=letter) for letter in "".join(said))

    async def ready(self) -> None:
        if self._closed:
            raise EngineUnavailable("The model is closed.")

    async def close(self) -> None:
        self._closed = True


def _answer(prompt: str, guide: Guide | None, *, images: int) -> list[str]:
    """What the model says to a prompt, control tokens on their own."""
    begun = prompt.rpartition("<|im_start|>assistant\n")[2]
    if guide is not None:
        return [PLACE] if guide.kind in (GuideKind.JSON, GuideKind.JSON_SCHEMA) else [guide.text]
    if begun:
        return ["{}}", "</tool_call>"]
    messages = _MESSAGE.findall(prompt)
    role, text = messages[-1] if messages else ("user", "")
    thought = ["<think>", THOUGHT, "</think>"] if text.endswith("Think.") else []
    function = _FUNCTION.search(prompt)
    if role == "tool":
        return [*thought, f"I was told: {text}"]
    if function is not None:
        call = dumps({"name": function[1], "arguments": {"location": "San Francisco, CA"}}).decode()
        return [*thought, "<tool_call>", call, "</tool_call>"]
    return [*thought, f"I see {images} image(s)." if images else LINE]


def _model(name: str, sight: Sight) -> ServedModel:
    return model(
        name=name,
        prompt=PromptEncoder(JinjaTemplate(_TEMPLATE, special_tokens={}, image_token=IMAGE), _TOKENIZER),
        tokenizer=_TOKENIZER,
        stop_ids=(_END_ID,),
        syntax=TokenSyntax(families.load("hermes"), _TOKENIZER),
        context_length=100_000,
        sight=sight,
    )


@dataclass(frozen=True)
class ScriptedSystem:
    """A running one."""

    server: EdgeServer
    model: ScriptedModel
    seer: ScriptedModel
    http: Http

    @property
    def url(self) -> str:
        return self.server.url


@asynccontextmanager
async def scripted_system(*, port: int = 0) -> AsyncIterator[ScriptedSystem]:
    """Ready to answer."""
    backend, clock, ids = MemoryBackend(), SystemClock(), RandomIds()
    engine, seer = ScriptedModel(), ScriptedModel(Level.TEXT)
    sealer = Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=clock)
    await backend.open()
    store, translator = StoreService(backend), TranslatorService(TranslatorSettings(), clock=clock)
    translator.add(_model(MODEL, Sight.REFUSE), engine)
    translator.add(_model(SEER, Sight.NATIVE), seer)
    server = EdgeServer(EdgeSettings(port=port, drain_s=1.0), store, translator, clock=clock, ids=ids)
    worker = Worker(WorkerSettings(drain_s=1.0), store, translator, clock=clock, ids=ids, sealer=sealer)
    await server.start()
    await worker.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield ScriptedSystem(server, engine, seer, Http(session, server.url))
    finally:
        await worker.stop()
        await server.stop()
        await translator.close()
        await backend.close()


@contextmanager
def scripted_system_in_a_thread() -> Iterator[str]:
    """The URL of one that runs in a thread of its own, for clients that block."""
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with scripted_system() as system:
            urls.append(system.url)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    started.wait(30)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


async def _serve(port: int) -> None:
    async with scripted_system(port=port) as system:
        print(system.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
