"""The Triton engines keep the contract on a real Triton, for every model signature, and handle faults that only a real
server has.

The scripted models of the server answer with the prompt's own ids, so a play becomes a prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from antiphon_core.errors import EngineFault, EngineMisconfigured, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.engines import triton_detect
from antiphon_translator.engines.base import Deliver, Engine
from antiphon_translator.engines.triton_channels import Transport, TritonChannels
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.generation import GenerationRequest, Level, TextChunk, TokenChunk
from antiphon_translator.models.profiles import ModelProfile
from tests.contract.engine.suite import REQUEST, SOON_S, EngineContract, Stage, collect, request_for
from tests.support import pushed
from tests.support.chunks import only
from tests.support.engine_plays import Ending, Play, as_text
from tests.support.prompts import prompt_at
from tests.support.triton import PACED, SIGNATURES, RunningTriton, ScriptedModel, triton_server
from tests.support.waiting import with_retries

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENSEMBLE = "three_steps"
"""The ensemble that Triton's own scheduler runs; the model called `ensemble` only looks like one from outside."""
MODELS = [
    *(ScriptedModel(name, delay_ms=5, signature=name) for name in SIGNATURES),
    ScriptedModel(ENSEMBLE, delay_ms=5, signature="ensemble", in_ensemble=True),
]
ADAPTED = [
    ScriptedModel("adapted", signature=MODEL_NAME, takes_lora=True),
    ScriptedModel("adapted_text", signature="ensemble", takes_lora=True),
]
END_ID = REQUEST.stop_ids[0]
NOBODY = "127.0.0.1:9"
"""An address at which no server listens."""
BEYOND = 5_000
"""The tokens of a generation that is not stopped. They take 25 s, longer than a busy machine delays a stop."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with triton_server(*MODELS, *ADAPTED) as running:
        yield running


def engine_for(
    server: RunningTriton, triton_model: str, *, transport: Transport = "lean", **changes: float | str
) -> TritonEngine:
    profile = ModelProfile(name="m", directory=Path(), endpoint=server.grpc_address, triton_model=triton_model)
    return triton_detect.engine(replace(profile, **changes), TritonChannels(transport))  # type: ignore[arg-type]


@dataclass
class PlayingEngine:
    """An engine whose requests are changed so that the server's scripted model plays the play."""

    inner: Engine
    server: RunningTriton
    play: Play

    @property
    def level(self) -> Level:
        return self.inner.level

    async def controls(self) -> frozenset[str]:
        return await self.inner.controls()

    async def ready(self) -> None:
        await self.inner.ready()

    async def close(self) -> None:
        await self.inner.close()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        ids = [token for part in self.play.messages for token in part]
        endless = self.play.ending is not Ending.BY_ITSELF
        prompt = ids or ([7] if endless else [END_ID])
        changed = replace(
            request,
            request_id=f"play-{next(_NUMBERS)}{self._behaviour()}",
            prompt=prompt_at(self.level, prompt, as_text(prompt)),
            max_tokens=len(ids) + BEYOND if endless else max(1, len(ids)),
        )
        watching = asyncio.create_task(self._watch(changed.request_id))
        try:
            await self.inner.generate(changed, deliver, flow)
        finally:
            _WATCHING.add(watching)

    def _behaviour(self) -> str:
        if self.play.ending is Ending.ERROR:
            return f"/fail/{len(self.play.messages)}"
        most = max(map(len, self.play.messages), default=1)
        return f"/coarse/{most}" if most > 1 else ""

    async def _watch(self, request_id: str) -> None:
        with suppress(AssertionError):  # not cancelled: a test that expects the cancellation times out
            await self.server.logged(f"begun id={request_id}")
            self.play.begun.set()
            await self.server.logged(f"request_id={request_id}")
            self.play.stopped.set()


_NUMBERS = count(1)
_WATCHING: set[asyncio.Task[None]] = set()


class OnTriton(EngineContract):
    """The suite for one model of the server, named by `signature`."""

    signature: str
    transport: Transport = "lean"

    @pytest_asyncio.fixture(loop_scope="module")
    async def stage(self, server: RunningTriton) -> AsyncIterator[Stage]:
        engines: list[Engine] = []

        def staged(play: Play) -> Engine:
            endpoint = NOBODY if play.ending is Ending.LOST else server.grpc_address
            engine = engine_for(server, self.signature, transport=self.transport, endpoint=endpoint)
            engines.append(PlayingEngine(engine, server, play))
            return engines[-1]

        yield staged
        for engine in engines:
            await engine.close()
        while _WATCHING:
            watching = _WATCHING.pop()
            watching.cancel()
            await asyncio.wait([watching])


class TestTensorrtLlm(OnTriton):
    signature = "tensorrt_llm"


class TestTensorrtLlmOverGrpcAio(OnTriton):
    signature = "tensorrt_llm"
    transport = "grpc"


class TestEnsemble(OnTriton):
    signature = "ensemble"


class TestEnsembleOfThreeSteps(OnTriton):
    signature = ENSEMBLE


class TestBls(OnTriton):
    signature = "tensorrt_llm_bls"


class TestLlmApi(OnTriton):
    signature = "llmapi"


class TestVllm(OnTriton):
    signature = "vllm_model"


def asked(*, ending: str = "", **changes: object) -> GenerationRequest:
    """The suite's request with its own id, which servers log and scripted models read."""
    return replace(REQUEST, request_id=f"asked-{next(_NUMBERS)}{ending}", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [model.name for model in MODELS])
@pytest.mark.parametrize(
    ("tokens", "which", "limit"), [(0, "first", "first_token_timeout_s"), (2, "next", "token_timeout_s")]
)
async def test_a_stalled_model_ends_with_a_timeout(
    server: RunningTriton, name: str, tokens: int, which: str, limit: str
) -> None:
    limits: dict[str, Any] = {"first_token_timeout_s": SOON_S, "token_timeout_s": SOON_S} | {limit: 0.3}
    engine = engine_for(server, name, **limits)
    with pytest.raises(EngineTimeout, match=f"no {which} token within 0.3 s"):
        await collect(engine, asked(ending=f"/stall/{tokens}"))
    assert await collected_at_last(engine) == [[11], [12]]
    await engine.close()


async def collected_at_last(engine: Engine) -> list[list[int]]:
    """Collects two tokens with retries: a server on a busy machine may miss a short timeout at first."""
    return await with_retries(lambda: collect(engine, asked(max_tokens=2)), EngineTimeout)


async def test_a_model_that_the_server_does_not_know_is_a_mistake_of_the_operator(server: RunningTriton) -> None:
    engine = engine_for(server, "nope")
    for asking in (engine.controls, engine.ready, lambda: collect(engine)):
        with pytest.raises(EngineMisconfigured, match="has no such model. Only an operator"):
            await asking()
    await engine.close()


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls", "llmapi", ENSEMBLE])
async def test_a_stop_text_that_the_model_ignores_stops_the_generation(server: RunningTriton, name: str) -> None:
    engine = engine_for(server, name)
    request = asked(max_tokens=BEYOND, stop=(as_text((13,)),), stop_in_reasoning=True)
    assert await collect(engine, request) == [[11], [12]]
    assert await server.tokens_when_cancelled(request.request_id) < BEYOND // 5
    await engine.close()


@pytest.mark.parametrize(("name", "adapter"), [("adapted", "7"), ("adapted_text", "7"), ("vllm_model", "mine")])
async def test_a_lora_adapter_is_requested_from_the_server(server: RunningTriton, name: str, adapter: str) -> None:
    engine = engine_for(server, name)
    assert "lora" in await engine.controls()
    async with aclosing(pushed.chunks(engine, await request_for(engine, asked(lora=adapter)))) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
    said = ["".join(one.text for one in chunks if isinstance(one, TextChunk))]
    if isinstance(chunks[0], TokenChunk):
        said = [str(token) for chunk in only(TokenChunk, chunks) for token in chunk.ids]
    assert said == [adapter if name == "adapted" else f"[{adapter}]"]
    await engine.close()


@pytest.mark.parametrize("name", [MODEL_NAME, "ensemble", "tensorrt_llm_bls", "llmapi", ENSEMBLE])
async def test_a_lora_adapter_for_a_model_without_adapters_is_rejected(server: RunningTriton, name: str) -> None:
    engine = engine_for(server, name)
    assert "lora" not in await engine.controls()
    with pytest.raises(EngineFault, match="no input for lora"):
        await collect(engine, asked(lora="7"))
    await engine.close()


async def test_models_that_died_are_given_up_and_served_again_after_the_restart() -> None:
    async with triton_server(*MODELS) as server:
        engines = [engine_for(server, model.name, token_timeout_s=1.0) for model in MODELS]
        await asyncio.gather(*(engine.controls() for engine in engines))
        # The stream is silent until the supervisor notices the death and ends the server with its connections.
        deaths = await asyncio.gather(
            *(collect(engine, asked(ending="/die/2")) for engine in engines), return_exceptions=True
        )
        assert [type(death) for death in deaths if not isinstance(death, EngineTimeout | EngineUnavailable)] == []
        for engine in engines:
            back = partial(collect, engine, asked(max_tokens=2))
            assert await with_retries(back, (EngineUnavailable, EngineTimeout)) == [[11], [12]]
            await engine.close()


async def test_a_server_that_is_killed_in_mid_stream_is_unavailable() -> None:
    async with triton_server(PACED) as server:
        engine = engine_for(server, PACED.name)
        # The model stalls, so that the stream is open at the kill.
        async with aclosing(pushed.chunks(engine, asked(ending="/stall/2"))) as batches:
            await anext(batches)
            server.kill()
            with pytest.raises(EngineUnavailable, match="cannot be reached"):
                async for _ in batches:
                    pass
        await engine.close()
