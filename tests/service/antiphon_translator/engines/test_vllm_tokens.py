from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import (
    ContextLengthExceeded,
    EngineMisconfigured,
    EngineOverloaded,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_translator.engines.vllm_tokens import VllmTokensEngine
from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest, Level, TokenChunk, TokenPrompt
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.placement import PlacementHint, placement_of
from tests.support import pushed
from tests.support.chunks import only
from tests.support.fake_chat import fake_chat
from tests.support.fake_generate import DONE, FakeGenerate, fake_generate, ids_event
from tests.support.waiting import WAIT_MAX_S

REQUEST = GenerationRequest(request_id="resp_1", max_tokens=4, prompt=TokenPrompt((10, 11)), stop_ids=(2,))


@pytest.fixture
async def fake() -> AsyncIterator[FakeGenerate]:
    async with fake_generate() as running:
        yield running


@pytest.fixture
def profile(fake: FakeGenerate) -> ModelProfile:
    return ModelProfile(
        name="m",
        directory=Path(),
        endpoint=fake.endpoint + "/",
        first_token_timeout_s=2 * WAIT_MAX_S,
        token_timeout_s=2 * WAIT_MAX_S,
        probe_timeout_s=WAIT_MAX_S,
    )


@pytest.fixture
async def engine(profile: ModelProfile) -> AsyncIterator[VllmTokensEngine]:
    made = VllmTokensEngine(profile)
    yield made
    await made.close()


async def chunks_of(engine: VllmTokensEngine, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    return [chunk async for batch in pushed.chunks(engine, request) for chunk in batch]


async def test_token_ids_are_sent_and_received(fake: FakeGenerate, engine: VllmTokensEngine) -> None:
    fake.compute(lambda ids: ids[-1] + 1)
    chunks = await chunks_of(engine)
    assert engine.level is Level.TOKENS
    assert [number for chunk in only(TokenChunk, chunks) for number in chunk.ids] == [12, 13, 14, 15]
    assert chunks[-1].finish is FinishReason.LENGTH
    (asked,) = fake.requests
    assert (asked["token_ids"], asked["model"], asked["stream"]) == ([10, 11], "m", True)


async def test_stream_without_a_finish_reason_is_unavailable(fake: FakeGenerate, engine: VllmTokensEngine) -> None:
    fake.script = [ids_event([12]), DONE]
    with pytest.raises(EngineUnavailable, match="ended the stream before the generation"):
        await chunks_of(engine)


async def test_engine_is_not_ready_without_its_model_in_the_list(
    fake: FakeGenerate, engine: VllmTokensEngine, profile: ModelProfile
) -> None:
    await engine.ready()
    other = VllmTokensEngine(replace(profile, chat_model="meta/m"))
    with pytest.raises(EngineMisconfigured, match="has no model 'meta/m'; it lists m"):
        await other.ready()
    await other.close()


async def test_engine_is_ready_only_with_its_adapter_in_the_list(fake: FakeGenerate, profile: ModelProfile) -> None:
    engine = VllmTokensEngine(replace(profile, lora="pirate"))
    with pytest.raises(EngineMisconfigured, match="has no model 'pirate'; it lists m"):
        await engine.ready()
    fake.adapters = ["pirate"]
    await engine.ready()
    assert "lora" in await engine.controls()
    await engine.close()


async def test_server_without_the_route_is_misconfigured_with_a_remedy() -> None:
    async with fake_chat() as chat:
        engine = VllmTokensEngine(ModelProfile(name="m", directory=Path(), endpoint=chat.endpoint))
        for asking in (engine.ready(), engine.controls(), chunks_of(engine)):
            with pytest.raises(EngineMisconfigured, match=r'does not serve token ids .*; engine = "openai_chat"'):
                await asking
        await engine.close()


async def test_rejected_request_is_classified_by_status_and_message(
    fake: FakeGenerate, engine: VllmTokensEngine
) -> None:
    fake.refusal = (400, {"error": {"message": "top_k must be -1 or more.", "code": 400}})
    with pytest.raises(InvalidRequest, match="rejects the request: top_k"):
        await chunks_of(engine)
    fake.refusal = (400, {"error": {"message": "This model's maximum context length is 4096 tokens.", "code": 400}})
    with pytest.raises(ContextLengthExceeded):
        await chunks_of(engine)
    fake.refusal = (429, {})
    with pytest.raises(EngineOverloaded):
        await chunks_of(engine)


async def test_router_before_a_server_of_token_ids_is_told_where_the_prompt_lies(
    fake: FakeGenerate, profile: ModelProfile
) -> None:
    fake.compute(lambda ids: ids[-1] + 1)
    fake.answer_headers = {"x-session-token": "pod-8"}
    engine = VllmTokensEngine(replace(profile, router="llm_d"))
    hint = PlacementHint(placement_of(profile.endpoint, "pod-7"), 2, 0)
    chunks = await chunks_of(engine, replace(REQUEST, placement=[hint]))
    assert fake.headers[0]["x-session-token"] == "pod-7"
    assert [chunk.placement for chunk in chunks[:2]] == ["pod-8", None]
    await engine.close()
