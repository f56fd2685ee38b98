"""The token-level Triton engine keeps the contract on a real Triton, and turns run on a real model.

The scripted models of the server answer with the prompt's own ids, so a play becomes a prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.local.repository import write_model_repository
from antiphon.local.server_venv import read_layout
from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineTimeout, EngineUnavailable
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Turn
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_tokens import TritonTokensEngine
from antiphon_translator.generation import EngineChunk, GenerationRequest
from antiphon_translator.profiles import ModelProfile
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.contract.engine.suite import REQUEST, SOON_S, EngineContract, Stage, collect
from tests.support.engine_plays import Ending, Play
from tests.support.served_models import message, model, tokenizer, turn
from tests.support.triton import (
    COARSE,
    DIE,
    PACED,
    STALL,
    RunningTriton,
    ScriptedModel,
    server_venv,
    triton_repository,
    triton_server,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILS = [ScriptedModel(f"fail{after}", "fail", delay_ms=1, after_tokens=after) for after in (1, 2)]
END_ID = REQUEST.stop_ids[0]
BEYOND = 500
"""Tokens that a generation would go on for if nobody stopped it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with triton_server(replace(PACED, delay_ms=5), COARSE, STALL, *FAILS) as running:
        yield running


def engine_for(server: RunningTriton, triton_model: str, **changes: float) -> TritonTokensEngine:
    profile = ModelProfile(name="m", directory=Path(), endpoint=server.grpc_address, triton_model=triton_model)
    return TritonTokensEngine(replace(profile, **changes), TritonChannels())  # type: ignore[arg-type]


@dataclass
class PlayingEngine:
    """An engine whose requests are changed so that the server's scripted model plays the play."""

    inner: Engine
    server: RunningTriton
    play: Play

    async def controls(self) -> frozenset[str]:
        return await self.inner.controls()

    async def ready(self) -> None:
        await self.inner.ready()

    async def close(self) -> None:
        await self.inner.close()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        ids = [token for part in self.play.messages for token in part]
        endless = self.play.ending is not Ending.BY_ITSELF
        changed = replace(
            request,
            request_id=f"play-{next(_NUMBERS)}",
            prompt_ids=ids or ([7] if endless else [END_ID]),
            max_tokens=len(ids) + BEYOND if endless else max(1, len(ids)),
        )
        watching = asyncio.create_task(self._watch(changed.request_id))
        try:
            async with aclosing(self.inner.generate(changed)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            _WATCHING.add(watching)

    async def _watch(self, request_id: str) -> None:
        with suppress(AssertionError):  # it was not cancelled, which a test that cares finds out by waiting
            await self.server.logged(f"request_id={request_id}")
            self.play.stopped.set()


_NUMBERS = count(1)
_WATCHING: set[asyncio.Task[None]] = set()


class TestTritonTokensOnTriton(EngineContract):
    @pytest_asyncio.fixture(loop_scope="module")
    async def stage(self, server: RunningTriton) -> AsyncIterator[Stage]:
        engines: list[Engine] = []

        def staged(play: Play) -> Engine:
            coarse = any(len(part) > 1 for part in play.messages)
            name = {
                Ending.ERROR: f"fail{len(play.messages)}",
                Ending.LOST: "gone",
            }.get(play.ending, "coarse" if coarse else "paced")
            engines.append(PlayingEngine(engine_for(server, name), server, play))
            return engines[-1]

        yield staged
        for engine in engines:
            await engine.close()
        while _WATCHING:
            watching = _WATCHING.pop()
            watching.cancel()
            await asyncio.wait([watching])


async def test_a_model_that_stalls_is_given_up_after_the_time_limit(server: RunningTriton) -> None:
    engine = engine_for(server, "stall", token_timeout_s=0.3)
    with pytest.raises(EngineTimeout, match="no next token"):
        await collect(engine)
    await engine.close()


async def test_a_model_that_died_is_given_up_and_served_again_after_the_restart() -> None:
    async with triton_server(DIE) as server:
        engine = engine_for(server, "die", token_timeout_s=1.0)
        # Silence, until whoever supervises the server notices and takes the connection away with it.
        with pytest.raises((EngineTimeout, EngineUnavailable)):
            async with asyncio.timeout(SOON_S):
                await collect(engine)
        assert await _collect_when_back(engine, replace(REQUEST, max_tokens=2)) == [[11], [12]]
        await engine.close()


async def _collect_when_back(engine: Engine, request: GenerationRequest) -> list[list[int]]:
    async with asyncio.timeout(20):
        while True:
            with suppress(EngineUnavailable):
                return await collect(engine, request)
            await asyncio.sleep(0.1)


async def test_a_server_that_is_killed_in_mid_stream_is_unavailable() -> None:
    async with triton_server(PACED) as server:
        engine = engine_for(server, "paced")
        async with aclosing(engine.generate(REQUEST)) as batches:
            await anext(batches)
            server.kill()
            with pytest.raises(EngineUnavailable, match="cannot be reached"):
                async for _ in batches:
                    pass
        await engine.close()


# ---- SmolLM2 ----


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def translator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TranslatorService]:
    """The whole translator in front of the packaged model."""
    gguf = read_layout(server_venv()).packaged_gguf
    folder = tmp_path_factory.mktemp("repository") / "models"
    async with triton_repository(write_model_repository(folder, gguf=gguf, context_length=1024, slots=4)) as server:
        service = TranslatorService(TranslatorSettings(), clock=SystemClock(), ids=RandomIds())
        service.add(model(context_length=1024), engine_for(server, "tensorrt_llm"))
        yield service
        await service.close()


async def run(translator: TranslatorService, given: Turn) -> tuple[list[Batch], Object]:
    """All batches of a turn, and its record; checks what is always so."""
    batches = [batch async for batch in translator.generate(given)]
    log = [event for batch in batches for event in events.decode(batch.frames)]
    final = batches[-1].final
    assert final is not None
    record: Object = loads(final.body) | {"output": loads(final.output_items)}
    assert record == fold(log)
    return batches, record


def text_of(record: Object) -> str:
    return str(record["output"][0]["content"][0]["text"])


async def test_a_question_and_its_follow_up(translator: TranslatorService) -> None:
    question = turn("What is the capital of France?", temperature=0, max_output_tokens=40)
    _, first = await run(translator, question)
    assert "Paris" in text_of(first)
    assert first["status"] == "completed"
    assert first["usage"]["input_tokens"] == await translator.count_tokens(question)
    assert first["usage"]["output_tokens"] == len(tokenizer().encode(text_of(first)))

    history = [message("user", "What is the capital of France?"), *first["output"]]
    _, second = await run(translator, turn("And of Italy?", history=history, temperature=0, max_output_tokens=40))
    assert "Rome" in text_of(second)
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


async def test_the_length_limit_is_exact(translator: TranslatorService) -> None:
    _, record = await run(translator, turn("Tell me a long story.", temperature=0, max_output_tokens=7))
    assert (record["status"], record["usage"]["output_tokens"]) == ("incomplete", 7)


async def test_sampling_is_not_the_same_every_time_and_text_streams(translator: TranslatorService) -> None:
    given = turn("Tell me a long story.", temperature=1.5, max_output_tokens=24)
    results = await asyncio.gather(*(run(translator, given) for _ in range(3)))
    assert len({text_of(record) for _, record in results}) > 1
    assert all(len(batches) > 5 for batches, _ in results)


async def test_a_turn_that_is_closed_stops_the_model(translator: TranslatorService) -> None:
    async with asyncio.timeout(SOON_S):
        for _ in range(6):  # more than the model has slots: they must come free
            async with aclosing(translator.generate(turn("Tell me a long story."))) as batches:
                for _ in range(3):
                    await anext(batches)
        _, record = await run(translator, turn("Hi", temperature=0, max_output_tokens=2))
    assert record["status"] in {Status.INCOMPLETE.value, Status.COMPLETED.value}
