"""Engines that break their request: more tokens, longer than allowed, or text in a wrong place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.scripted import Emit, ScriptedEngine, Wait
from antiphon_translator.generation import Level, TextChunk
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.service import TranslatorService
from tests.support.engine_plays import Ending
from tests.support.fake_chat import USAGE, FakeChat, delta, event, fake_chat
from tests.support.in_process import translator_of
from tests.support.served_models import model, turn
from tests.support.waiting import WAIT_MAX_S

TOKENS = 32
DELTAS = 20_000
MEASURED = {"is_measured": True}
UNMEASURED = {"is_measured": False, "context_length": 0}


@asynccontextmanager
async def chatting(**changes: Any) -> AsyncIterator[tuple[TranslatorService, FakeChat]]:
    """A translator with a fake server of chat completions."""
    async with fake_chat() as fake:
        profile = ModelProfile(name="m", endpoint=fake.endpoint, engine="openai_chat", first_token_timeout_s=WAIT_MAX_S)
        service = translator_of((model(**changes), OpenAIChatEngine(profile)))
        try:
            yield service, fake
        finally:
            await service.close()


async def ran(service: TranslatorService, **asked: Any) -> tuple[Status, Object, str]:
    """Runs a turn, and returns its status, its response and its text."""
    batches: list[Batch] = []
    await service.generate(turn("Hi", **asked), batches.append)
    final = batches[-1].final
    assert final is not None
    items = loads(final.output_items)
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    return final.status, loads(final.body), text


@pytest.mark.parametrize("model_of", [MEASURED, UNMEASURED])
@pytest.mark.parametrize(
    "endless",
    [
        delta(content="word "),
        delta(reasoning_content="word "),
        delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "word "}}]),
    ],
)
async def test_endless_output_is_stopped_at_max_output_tokens(model_of: dict[str, Any], endless: bytes) -> None:
    async with chatting(**model_of) as (service, fake):
        fake.script = [*[endless] * DELTAS, Ending.SILENCE]
        status, body, text = await ran(service, max_output_tokens=TOKENS)
        async with asyncio.timeout(WAIT_MAX_S):
            await fake.stopped.wait()
    assert status is Status.INCOMPLETE
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert body["usage"]["output_tokens"] == TOKENS
    assert text.count("word") <= (2 if model_of is MEASURED else 20) * TOKENS


async def test_an_answer_in_single_characters_is_not_cut_off() -> None:
    answer = "The capital of France is Paris. " * 4
    async with chatting() as (service, fake):
        fake.script = [*(delta(content=each) for each in answer), Ending.BY_ITSELF]
        status, _, text = await ran(service, max_output_tokens=TOKENS)
    assert status is Status.COMPLETED
    assert text == answer


ENDED = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
COUNTED = event({"choices": [], "usage": USAGE})
DONE = b"data: [DONE]\n\n"
OTHER = event({"choices": [{"index": 5, "delta": {"content": "other"}, "finish_reason": "length"}]})
HELLO, MORE = delta(content="Hello"), delta(content=" more")


@pytest.mark.parametrize(
    "script",
    [
        [HELLO, ENDED, COUNTED, DONE, MORE],
        [HELLO, ENDED, COUNTED, DONE, *[MORE] * DELTAS, Ending.SILENCE],
        [OTHER, HELLO, OTHER, ENDED, COUNTED, DONE],
    ],
    ids=["behind the end", "endlessly behind the end", "of another choice"],
)
async def test_text_behind_the_end_or_of_another_choice_is_left_out(script: list[bytes | Ending]) -> None:
    async with chatting() as (service, fake):
        fake.script = script
        status, body, text = await ran(service)
    assert (status, text) == (Status.COMPLETED, "Hello")
    assert body["usage"]["output_tokens"] == USAGE["completion_tokens"]


async def test_text_behind_the_finish_reason_is_read_up_to_the_limit() -> None:
    async with chatting() as (service, fake):
        fake.script = [HELLO, ENDED, MORE, COUNTED, DONE]
        assert (await ran(service))[2] == "Hello more"
        fake.script = [HELLO, ENDED, *[MORE] * DELTAS, Ending.SILENCE]
        status, _, text = await ran(service, max_output_tokens=TOKENS)
    assert status is Status.INCOMPLETE
    assert text.count("more") <= 20 * TOKENS


async def test_text_engines_are_stopped_at_max_output_tokens() -> None:
    engine = ScriptedEngine([Emit(TextChunk("word "))] * DELTAS)
    engine.level = Level.TEXT
    service = translator_of((model(), engine))
    status, _, text = await ran(service, max_output_tokens=TOKENS)
    assert status is Status.INCOMPLETE
    assert text.count("word") <= 2 * TOKENS
    assert engine.stopped.is_set()


async def test_a_slow_endless_generation_ends_at_its_timeout() -> None:
    engine = ScriptedEngine([Emit([1]), Wait(0.01)] * 100_000)
    service = translator_of((model(context_length=10**9), engine), generation_s=0.2)
    status, body, _ = await ran(service)
    assert status is Status.FAILED
    assert "within 0.2 s" in body["error"]["message"]
    assert engine.stopped.is_set()
