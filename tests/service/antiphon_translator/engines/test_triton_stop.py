from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, EngineTimeout
from antiphon_translator.engines import triton_text
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_stop import can_be_stopped
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.generation import EngineChunk, GenerationRequest, TextChunk, TextPrompt
from antiphon_translator.models.profiles import ModelProfile
from tests.support import pushed
from tests.support.chunks import only
from tests.support.engine_plays import Ending
from tests.support.fake_triton import (
    ENSEMBLE,
    INPUTS,
    FakeTriton,
    error_response,
    fake_triton,
    final_response,
    response,
)
from tests.support.triton_requests import sent
from tests.support.waiting import WAIT_MAX_S, until

REQUEST = GenerationRequest(request_id="resp_1", prompt=TextPrompt("Hi"), max_tokens=1000)
STEPS = {"before": {"QUERY": "TYPE_STRING"}, "middle": INPUTS | {"stop": "TYPE_BOOL"}, "behind": {}}
HELLO = response({"text_output": "Hello END"})


@pytest.fixture
async def fake() -> AsyncIterator[FakeTriton]:
    async with fake_triton(ENSEMBLE) as running:
        running.steps = STEPS
        running.script = [HELLO, Ending.SILENCE]
        yield running


@pytest.fixture
def profile(fake: FakeTriton) -> ModelProfile:
    """Long timeouts, so that none ends a test. The test of a timeout shortens it."""
    timeout_s = 2 * WAIT_MAX_S
    return ModelProfile(
        name="m", directory=Path(), endpoint=fake.endpoint, token_timeout_s=timeout_s, probe_timeout_s=timeout_s
    )


@pytest.fixture(params=["lean", "grpc"])
def channels(request: pytest.FixtureRequest) -> TritonChannels:
    return TritonChannels(request.param)


@pytest.fixture
async def engine(profile: ModelProfile, channels: TritonChannels) -> AsyncIterator[TritonEngine]:
    made = triton_text.engine(profile, channels)
    yield made
    await made.close()


async def first_of(engine: TritonEngine, request: GenerationRequest = REQUEST) -> EngineChunk:
    async with aclosing(pushed.chunks(engine, request)) as batches:
        return (await anext(batches))[0]


async def all_of(engine: TritonEngine, request: GenerationRequest = REQUEST) -> str:
    async with aclosing(pushed.chunks(engine, request)) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
        return "".join(chunk.text for chunk in only(TextChunk, chunks))


async def requested_models(fake: FakeTriton, count: int) -> list[str]:
    """Waits for `count` requests and returns their models."""
    await until(lambda: len(fake.requests) >= count, f"{count} requests")
    return [request.model_name for request in fake.requests]


async def test_cancellation_stops_the_generating_step_of_an_ensemble(fake: FakeTriton, engine: TritonEngine) -> None:
    await first_of(engine)
    assert await requested_models(fake, 2) == ["tensorrt_llm", "middle"]
    stop = fake.requests[1]
    assert stop.id == "resp_1"
    assert sent(stop)["stop"] == ([1, 1], [True])
    assert sent(stop)["input_lengths"] == sent(stop)["request_output_len"] == ([1, 1], [0])


@pytest.mark.parametrize(
    "changes", [{"stop": (" END",), "stop_in_reasoning": True}, {"stop_tokens": (" END",)}], ids=["text", "token"]
)
async def test_stop_text_found_by_the_engine_stops_the_generating_step(
    fake: FakeTriton, engine: TritonEngine, changes: dict[str, Any]
) -> None:
    asked = replace(REQUEST, **changes)
    assert await all_of(engine, asked) == "Hello"
    assert await requested_models(fake, 2) == ["tensorrt_llm", "middle"]


async def test_stop_request_that_cannot_be_written_is_logged(
    fake: FakeTriton, engine: TritonEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fake.steps = STEPS | {"middle": INPUTS | {"stop": "TYPE_BF16"}}
    await first_of(engine)
    await engine.close()
    assert "resp_1: the stop request to 'middle' failed" in caplog.text


async def test_timeout_stops_the_generating_step(
    fake: FakeTriton, profile: ModelProfile, channels: TritonChannels
) -> None:
    engine = triton_text.engine(replace(profile, token_timeout_s=0.1), channels)
    with pytest.raises(EngineTimeout, match="no next token"):
        await all_of(engine)
    assert await requested_models(fake, 2) == ["tensorrt_llm", "middle"]
    await engine.close()


async def test_error_of_an_ensemble_stops_the_generating_step(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [HELLO, error_response("broken"), Ending.SILENCE]
    with pytest.raises(EngineFault):
        await all_of(engine)
    assert await requested_models(fake, 2) == ["tensorrt_llm", "middle"]


async def test_generation_that_ended_by_itself_is_not_stopped(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.script = [HELLO, final_response()]
    assert await all_of(engine) == "Hello END"
    await engine.close()
    assert [request.model_name for request in fake.requests] == ["tensorrt_llm"]


async def test_step_without_a_stop_input_gets_no_stop_request(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.steps = STEPS | {"middle": INPUTS}
    await first_of(engine)
    await engine.close()
    assert [request.model_name for request in fake.requests] == ["tensorrt_llm"]


async def test_cancellation_does_not_wait_for_the_answer_to_the_stop_request(
    fake: FakeTriton, engine: TritonEngine
) -> None:
    fake.stop_is_heard = False
    async with asyncio.timeout(WAIT_MAX_S):
        await first_of(engine)
        assert await requested_models(fake, 2) == ["tensorrt_llm", "middle"]
        await engine.close()


async def test_beginning_that_the_preprocessing_adds_is_not_sent(fake: FakeTriton, engine: TritonEngine) -> None:
    fake.step_parameters = {"before": {"add_special_tokens": "true"}}
    fake.script = [HELLO, final_response()]
    await all_of(engine, replace(REQUEST, prompt=TextPrompt("<s>Hi", added="<s>")))
    assert sent(fake.requests[0])["text_input"][1] == ["Hi"]


def test_only_a_token_model_with_a_stop_input_can_be_stopped() -> None:
    names = ("input_ids", "input_lengths", "request_output_len", "stop")
    step = TritonModel(name="s", is_batched=True, inputs=dict.fromkeys(names, "INT32"))
    assert can_be_stopped(step)
    assert not any(can_be_stopped(replace(step, inputs=dict.fromkeys({*names} - {name}, "INT32"))) for name in names)
