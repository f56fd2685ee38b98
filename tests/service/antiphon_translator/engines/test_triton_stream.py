from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import EngineFault, EngineMisconfigured, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines import triton_text, triton_tokens
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_stream import END_GRACE_S, TritonEngine
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Sampling,
    TextChunk,
    TextPrompt,
    TokenChunk,
    TokenPrompt,
)
from antiphon_translator.models.profiles import ModelProfile
from tests.support import pushed
from tests.support.chunks import only
from tests.support.engine_plays import Ending
from tests.support.fake_triton import (
    ENSEMBLE,
    FakeTriton,
    error_response,
    fake_triton,
    final_response,
    response,
    token_response,
)
from tests.support.waiting import WAIT_MAX_S

REQUEST = GenerationRequest(request_id="resp_1", prompt=TokenPrompt((5, 6, 7)), max_tokens=1000, stop_ids=(2,))


@pytest.fixture
async def fake() -> AsyncIterator[FakeTriton]:
    async with fake_triton() as running:
        yield running


@pytest.fixture
def profile(fake: FakeTriton) -> ModelProfile:
    """Long timeouts, so that none ends a test. Tests of a timeout shorten it."""
    return ModelProfile(
        name="m",
        directory=Path(),
        endpoint=fake.endpoint,
        first_token_timeout_s=2 * WAIT_MAX_S,
        token_timeout_s=2 * WAIT_MAX_S,
        probe_timeout_s=WAIT_MAX_S,
    )


@pytest.fixture(params=["lean", "grpc"])
def channels(request: pytest.FixtureRequest) -> TritonChannels:
    return TritonChannels(request.param)


@pytest.fixture
async def engine(profile: ModelProfile, channels: TritonChannels) -> AsyncIterator[TritonEngine]:
    made = triton_tokens.engine(profile, channels)
    yield made
    await made.close()


async def ids_of(engine: TritonEngine, request: GenerationRequest = REQUEST) -> list[int]:
    ids: list[int] = []
    async with aclosing(pushed.chunks(engine, request)) as batches:
        async for batch in batches:
            ids += [token for chunk in only(TokenChunk, batch) for token in chunk.ids]
    return ids


async def test_model_configuration_is_requested_once_and_again_after_a_failure(
    fake: FakeTriton, engine: TritonEngine
) -> None:
    fake.script = [token_response([5]), final_response()]
    await engine.controls()
    await ids_of(engine)
    await ids_of(engine)
    assert fake.config_calls == 1
    fake.script = [error_response("broken")]
    with pytest.raises(EngineFault):
        await ids_of(engine)
    fake.inputs = {name: kind for name, kind in fake.inputs.items() if name != "seed"}
    assert "seed" not in await engine.controls()
    assert fake.config_calls == 2


async def test_generation_sends_one_request_on_its_stream(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [token_response([5], final=True)]
    assert await ids_of(engine, replace(REQUEST, sampling=Sampling(top_p=1.0))) == [5]
    (asked,) = fake.requests
    assert asked.id == "resp_1"
    assert "runtime_top_p" in [tensor.name for tensor in asked.inputs]


async def test_silence_before_the_first_token_is_a_timeout(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    short = triton_tokens.engine(replace(profile, first_token_timeout_s=0.3), channels)
    fake.script = [Ending.SILENCE]
    with pytest.raises(EngineTimeout, match=r"no first token within 0\.3 s"):
        await ids_of(short)
    async with asyncio.timeout(WAIT_MAX_S):
        await fake.stopped.wait()
    await short.close()


async def test_silence_after_a_token_is_a_timeout(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    short = triton_tokens.engine(replace(profile, token_timeout_s=0.2), channels)
    fake.script = [0.3, token_response([5]), token_response([]), Ending.SILENCE]
    with pytest.raises(EngineTimeout, match=r"no next token within 0\.2 s"):
        await ids_of(short)
    await short.close()


async def test_a_stream_that_ends_without_a_final_response_is_a_fault(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [token_response([5])]
    with pytest.raises(EngineFault, match="ended the stream before"):
        await ids_of(engine)


async def test_a_lost_backend_is_unavailable(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [error_response("Stub process 'tensorrt_llm_0_0' is not healthy.")]
    with pytest.raises(EngineUnavailable, match="lost the process"):
        await ids_of(engine)


async def test_unreachable_server_is_unavailable(fake: FakeTriton, engine: TritonEngine) -> None:
    await engine.controls()
    await fake.server.stop(None)
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await engine.ready()
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await ids_of(engine)
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await engine.controls()


async def test_server_that_dies_in_mid_stream_is_unavailable(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [token_response([5]), Ending.SILENCE]
    async with aclosing(pushed.chunks(engine, REQUEST)) as batches:
        await anext(batches)
        await fake.server.stop(None)
        with pytest.raises(EngineUnavailable):
            await anext(batches)


async def test_closing_the_engine_raises_an_error_in_running_generations(
    fake: FakeTriton, engine: TritonEngine
) -> None:
    fake.script = [token_response([5]), Ending.SILENCE]
    async with asyncio.timeout(WAIT_MAX_S), aclosing(pushed.chunks(engine, REQUEST)) as batches:
        await anext(batches)
        await engine.close()
        with pytest.raises(EngineUnavailable):
            await anext(batches)


async def test_engine_is_not_ready_without_its_server_or_its_model(
    fake: FakeTriton, engine: TritonEngine, profile: ModelProfile, channels: TritonChannels
) -> None:
    await engine.ready()
    fake.model_ready = False
    with pytest.raises(EngineUnavailable, match="no model 'tensorrt_llm' ready"):
        await engine.ready()
    fake.server_ready = False
    with pytest.raises(EngineUnavailable, match="is not ready"):
        await engine.ready()
    unknown = triton_tokens.engine(replace(profile, triton_model="nope"), channels)
    fake.server_ready = True
    for asked in (unknown.controls, unknown.ready):
        with pytest.raises(EngineMisconfigured, match="has no such model"):
            await asked()
    await unknown.close()


@pytest.mark.parametrize("what", ["server_ready", "model_ready"])
async def test_error_of_a_server_that_is_not_ready_has_no_address(
    fake: FakeTriton, engine: TritonEngine, profile: ModelProfile, what: str
) -> None:
    setattr(fake, what, False)
    with pytest.raises(EngineUnavailable, match="The Triton server of model 'm'") as caught:
        await engine.ready()
    assert profile.endpoint not in caught.value.message


def with_long_timeouts(profile: ModelProfile, channels: TritonChannels, *, end_grace_s: float) -> TritonEngine:
    return TritonEngine(profile, channels, triton_tokens.describe, end_grace_s=end_grace_s)


@pytest.mark.parametrize(
    ("last_id", "max_tokens"), [pytest.param(9, 1, id="all tokens came"), pytest.param(2, 100, id="a stop id came")]
)
async def test_finished_stream_is_left_to_end_by_itself(
    fake: FakeTriton, profile: ModelProfile, last_id: int, max_tokens: int, channels: TritonChannels
) -> None:
    engine = with_long_timeouts(profile, channels, end_grace_s=2 * WAIT_MAX_S)
    fake.script = [token_response([last_id]), END_GRACE_S / 5, final_response()]
    async with asyncio.timeout(WAIT_MAX_S):
        await engine.generate(replace(REQUEST, max_tokens=max_tokens), pushed.Deliveries(most=1), Flow())
    await asyncio.sleep(0.05)
    assert not fake.stopped.is_set()
    await engine.close()


async def test_finished_stream_that_does_not_end_is_cancelled(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [token_response([9]), Ending.SILENCE]
    async with asyncio.timeout(WAIT_MAX_S):
        await engine.generate(replace(REQUEST, max_tokens=1), pushed.Deliveries(most=1), Flow())
        await fake.stopped.wait()


async def test_error_behind_a_finished_stream_is_ignored(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    engine = with_long_timeouts(profile, channels, end_grace_s=2 * WAIT_MAX_S)
    fake.script = [token_response([9]), END_GRACE_S / 5, Ending.LOST]
    async with asyncio.timeout(WAIT_MAX_S):
        await engine.generate(replace(REQUEST, max_tokens=1), pushed.Deliveries(most=1), Flow())
    await engine.close()


async def test_cancellation_during_the_grace_cancels_at_once(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    engine, deliveries = with_long_timeouts(profile, channels, end_grace_s=2 * WAIT_MAX_S), pushed.Deliveries(most=1)
    fake.script = [token_response([9]), Ending.SILENCE]
    running = asyncio.create_task(engine.generate(replace(REQUEST, max_tokens=1), deliveries, Flow()))
    async with asyncio.timeout(WAIT_MAX_S):
        await deliveries.came.wait()
        await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await fake.stopped.wait()
    await engine.close()


async def test_token_timeout_is_suspended_while_the_flow_is_paused(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    engine = triton_tokens.engine(replace(profile, token_timeout_s=0.2), channels)
    fake.script = [token_response([5]), Ending.SILENCE]
    flow, came = Flow(), asyncio.Event()

    def deliver(chunks: Sequence[EngineChunk]) -> bool:
        flow.pause(came)
        came.set()
        return True

    running = asyncio.create_task(engine.generate(REQUEST, deliver, flow))
    await came.wait()
    await asyncio.sleep(0.4)
    assert not running.done()
    flow.resume(came)
    with pytest.raises(EngineTimeout, match=r"no next token within 0\.2 s"):
        await running
    await engine.close()


async def test_stop_text_found_by_the_engine_cancels_the_rpc(channels: TritonChannels) -> None:
    async with fake_triton(ENSEMBLE) as fake:
        engine = triton_text.engine(ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint), channels)
        fake.script = [response({"text_output": "One END"}), Ending.SILENCE]
        asked = replace(REQUEST, prompt=TextPrompt("Hi"), stop=("END",), stop_in_reasoning=True)
        async with asyncio.timeout(WAIT_MAX_S), aclosing(pushed.chunks(engine, asked)) as batches:
            chunks = [chunk async for batch in batches for chunk in batch]
        assert [(chunk.text, chunk.finish) for chunk in only(TextChunk, chunks)] == [("One ", FinishReason.STOP)]
        async with asyncio.timeout(WAIT_MAX_S):
            await fake.stopped.wait()
        await engine.close()
