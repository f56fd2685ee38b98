"""vLLM's route for token ids, `/inference/v1/generate`, on a real vLLM on the CPU: `make engines` runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon_translator.engines.vllm_tokens import VllmTokensEngine
from antiphon_translator.generation import FinishReason, GenerationRequest, Sampling, TokenChunk, TokenPrompt
from antiphon_translator.models.profiles import ModelProfile
from tests.contract.engine.tokens_suite import FRANCE, PARIS, asked, text_of
from tests.engines.cases import MODEL
from tests.engines.servers import KINDS, Server, serving
from tests.support import pushed
from tests.support.chunks import only
from tests.support.served_models import END_ID

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1_200)]

BLOCK = 128
"""The tokens in a block of the KV cache, which vLLM has on a CPU."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    kind = KINDS[0]
    with serving(replace(kind, command=lambda port: [*kind.command(port), "--enable-scale-out"])) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def engine(server: Server) -> AsyncIterator[VllmTokensEngine]:
    endpoint = f"http://127.0.0.1:{server.port}/v1"
    made = VllmTokensEngine(ModelProfile(name=MODEL, directory=Path(), engine="vllm_tokens", endpoint=endpoint))
    yield made
    await made.close()


async def generate(engine: VllmTokensEngine, text: str, *, salt: str | None = None) -> list[TokenChunk]:
    request = GenerationRequest(
        request_id=f"r-{salt}",
        prompt=TokenPrompt(asked(text)),
        max_tokens=20,
        stop_ids=(END_ID,),
        sampling=Sampling(temperature=0),
        cache_salt=salt,
    )
    return only(TokenChunk, [each async for batch in pushed.chunks(engine, request) for each in batch])


async def test_ids_come_one_by_one_and_the_last_ones_with_the_usage(engine: VllmTokensEngine) -> None:
    await engine.ready()
    chunks = await generate(engine, FRANCE)
    ids = [token_id for chunk in chunks for token_id in chunk.ids]
    assert (text_of(ids[:-1]), ids[-1], chunks[-1].finish) == (PARIS, END_ID, FinishReason.STOP)
    assert len(chunks) > 5
    assert [chunk.facts is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


async def test_salts_share_no_cached_tokens(engine: VllmTokensEngine) -> None:
    cached = []
    for salt in ("a", "b", "a", None):
        facts = (await generate(engine, "Tell me of a river. " * 40, salt=salt))[-1].facts
        assert facts is not None
        cached.append(facts.cached_tokens)
    assert cached == [0, 0, BLOCK, 0]
