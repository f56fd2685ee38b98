"""Cached tokens of TensorRT-LLM's own model: the size of a block is that of the profile, or of the server's metrics."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_translator.engines import triton_tokens
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.generation import GenerationRequest, TokenChunk, TokenPrompt
from antiphon_translator.models.profiles import ModelProfile
from tests.support import pushed
from tests.support.chunks import only
from tests.support.engine_plays import Ending
from tests.support.fake_triton import MODEL, TOKENS, FakeTriton, fake_triton, response
from tests.support.metrics_server import metrics_server
from tests.support.ports import free_ports
from tests.support.waiting import until

PAGE = f"""HTTP/1.0 200 OK\r\n\r
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="tokens_per",model="{MODEL}",version="1"}} 64
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="tokens_per",model="other",version="1"}} 32
""".encode()
CLASSIC = replace(
    TOKENS,
    inputs={**TOKENS.inputs, "return_perf_metrics": "TYPE_BOOL"},
    outputs=(*TOKENS.outputs, "kv_cache_reused_blocks"),
)
REQUEST = GenerationRequest(request_id="r", prompt=TokenPrompt(tuple(range(300))), max_tokens=1)


@pytest.fixture
async def life() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def engine_of(life: AsyncExitStack, outputs: Mapping[str, Any], **members: Any) -> TritonEngine:
    triton: FakeTriton = await life.enter_async_context(fake_triton(CLASSIC))
    triton.script = [response({"sequence_length": [1], "output_ids": [7], **outputs}), Ending.BY_ITSELF]
    profile = ModelProfile(name="m", directory=Path(), endpoint=triton.endpoint, triton_model=MODEL, **members)
    engine = triton_tokens.engine(profile, TritonChannels())
    life.push_async_callback(engine.close)
    return engine


async def cached_tokens(engine: TritonEngine) -> int | None:
    chunks = only(TokenChunk, [each async for batch in pushed.chunks(engine, REQUEST) for each in batch])
    return next((chunk.facts.cached_tokens for chunk in chunks if chunk.facts is not None), None)


async def test_block_size_is_learned_from_the_metrics_of_the_server(life: AsyncExitStack) -> None:
    port = await life.enter_async_context(metrics_server(PAGE))
    engine = await engine_of(life, {"kv_cache_reused_blocks": [3]}, metrics_port=port)
    await engine.controls()
    await until(lambda: engine._blocks.tokens > 0, "the size is learned")
    assert await cached_tokens(engine) == 3 * 64


async def test_block_size_of_the_profile_counts(life: AsyncExitStack) -> None:
    port = await life.enter_async_context(metrics_server(PAGE))
    engine = await engine_of(life, {"kv_cache_reused_blocks": [3]}, metrics_port=port, kv_block_tokens=16)
    assert await cached_tokens(engine) == 3 * 16
    assert engine._blocks._learning is None


async def test_cached_tokens_are_not_reported_without_a_block_size(
    life: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    (port,) = free_ports(1)
    engine = await engine_of(life, {"kv_cache_reused_blocks": [3]}, metrics_port=port)
    with caplog.at_level(logging.INFO):
        assert await cached_tokens(engine) is None
        await until(lambda: "its cached tokens are not reported" in caplog.text, "the reason is logged")
