"""A real model on a real Triton, under every signature: the features of an engine that a turn needs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from itertools import count

import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import loads
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.engines.base import Engine
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    ReportedUsage,
    Sampling,
    TextChunk,
    TextPrompt,
    TokenChunk,
)
from tests.support import pushed
from tests.support.chunks import only, usage_in
from tests.support.prompts import prompt_at, text_in
from tests.support.served_models import END_ID, FILES
from tests.support.text_models import TEXT_MODELS
from tests.support.triton import SIGNATURES, RunningTriton, smollm2_server
from tests.support.turns import engine_on

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUIDED = tuple(name for name in SIGNATURES if name != "llmapi")
"""The LLM-API model has no inputs for guides."""
TRIES = 20
_NUMBERS = count(1)


@cache
def vocabulary() -> Tokenizer:
    return Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))


def ids_of(text: str) -> list[int]:
    """The ids of a text. Control tokens in the text become single ids."""
    ids: list[int] = vocabulary().encode(text, add_special_tokens=False).ids
    return ids


def asked(text: str, **changes: object) -> GenerationRequest:
    """A question at temperature 0. `at_level` converts its prompt for an engine."""
    prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    request = GenerationRequest(
        request_id=f"smol-{next(_NUMBERS)}",
        max_tokens=40,
        prompt=TextPrompt(prompt, tokens=len(ids_of(prompt))),
        stop_ids=(END_ID,),
        sampling=Sampling(temperature=0.0),
    )
    return replace(request, **changes)  # type: ignore[arg-type]


QUESTION = "What is the capital of France?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with smollm2_server(*SIGNATURES) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", params=SIGNATURES)
async def engine(server: RunningTriton, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = engine_on(server, name=request.param)
    yield made
    await made.close()


async def at_level(engine: Engine, request: GenerationRequest) -> GenerationRequest:
    """The request with its prompt converted to the engine's level."""
    await engine.controls()
    text = text_in(request)
    return replace(request, prompt=prompt_at(engine.level, ids_of(text), text))


async def chunks_of(engine: Engine, request: GenerationRequest) -> list[EngineChunk]:
    async with aclosing(pushed.chunks(engine, await at_level(engine, request))) as batches:
        return [chunk async for batch in batches for chunk in batch]


def text_of(chunks: list[EngineChunk]) -> str:
    ids = [token for chunk in chunks if isinstance(chunk, TokenChunk) for token in chunk.ids]
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) + vocabulary().decode(ids)


def tokens_in(text: str) -> int:
    return len(ids_of(text))


async def test_every_signature_streams_the_expected_text_and_usage(engine: Engine) -> None:
    request = asked(QUESTION)
    chunks = await chunks_of(engine, request)
    assert text_of(chunks) == "The capital of France is Paris."
    assert len(chunks) > 5
    if engine.level is Level.TEXT:
        assert chunks[-1].finish is FinishReason.STOP
        assert usage_in(chunks[-1]) in (None, *usages(request, "The capital of France is Paris."))


def usages(request: GenerationRequest, text: str) -> list[ReportedUsage]:
    """The usage with and without the token that ended the turn: vLLM counts that token, TensorRT-LLM does not."""
    return [ReportedUsage(request.prompt_as(TextPrompt).tokens, tokens_in(text) + more) for more in (0, 1)]


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls", "vllm_model"])
async def test_signatures_with_usage_report_exact_counts(server: RunningTriton, name: str) -> None:
    engine = engine_on(server, name=name)
    request = asked("Tell me a long story.", max_tokens=7)
    chunks = await chunks_of(engine, request)
    assert usage_in(chunks[-1]) == ReportedUsage(request.prompt_as(TextPrompt).tokens, 7)
    assert chunks[-1].finish is FinishReason.LENGTH
    await engine.close()


async def test_generation_ends_at_max_tokens(engine: Engine) -> None:
    chunks = await chunks_of(engine, asked("Tell me a long story.", max_tokens=7))
    assert tokens_in(text_of(chunks)) == 7
    if engine.level is Level.TEXT:
        assert chunks[-1].finish is FinishReason.LENGTH


@pytest.mark.parametrize("name", TEXT_MODELS)
@pytest.mark.parametrize("stop", [" France", "ance is", "capi"])
async def test_generation_ends_before_a_stop_text(server: RunningTriton, name: str, stop: str) -> None:
    engine = engine_on(server, name=name)
    chunks = await chunks_of(engine, asked(QUESTION, stop=("nowhere", stop), stop_in_reasoning=True))
    assert text_of(chunks) == "The capital of France is Paris.".partition(stop)[0]
    assert chunks[-1].finish is FinishReason.STOP
    await engine.close()


async def test_any_stop_id_ends_the_generation(server: RunningTriton) -> None:
    """An engine of ids delivers the stop id that was generated. vLLM counts the stop id, but leaves its text out."""
    (france,) = ids_of(" France")
    request = asked(QUESTION, stop_ids=(END_ID, france))
    tokens, vllm = (engine_on(server, name=name) for name in (MODEL_NAME, "vllm_model"))
    assert text_of(await chunks_of(tokens, request)) == "The capital of France"
    chunks = await chunks_of(vllm, request)
    assert text_of(chunks) == "The capital of"
    assert (chunks[-1].finish, usage_in(chunks[-1])) == (
        FinishReason.STOP,
        ReportedUsage(request.prompt_as(TextPrompt).tokens, 4),
    )
    for engine in (tokens, vllm):
        await engine.close()


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls", "llmapi"])
async def test_further_stop_token_ends_the_generation_of_a_text_model(server: RunningTriton, name: str) -> None:
    engine = engine_on(server, name=name)
    chunks = await chunks_of(engine, asked(QUESTION, stop_tokens=(" France",)))
    assert text_of(chunks) == "The capital of"
    assert chunks[-1].finish is FinishReason.STOP
    await engine.close()


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls", MODEL_NAME])
async def test_generation_that_ignores_the_end_id_goes_on_to_max_tokens(server: RunningTriton, name: str) -> None:
    engine = engine_on(server, name=name)
    assert "ignore_eos" in await engine.controls()
    chunks = await chunks_of(engine, asked(QUESTION, stop_ids=(), ignore_eos=True, max_tokens=12))
    if name == MODEL_NAME:
        assert sum(len(chunk.ids) for chunk in only(TokenChunk, chunks)) == 12
    else:
        assert usage_in(chunks[-1]) == ReportedUsage(asked(QUESTION).prompt_as(TextPrompt).tokens, 12)
    await engine.close()


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", GUIDED)
async def test_a_guided_generation_follows_its_schema(server: RunningTriton, name: str) -> None:
    engine = engine_on(server, name=name)
    assert "guide" in await engine.controls()
    schema = asked("Bob is 42 years old.", max_tokens=100, guide=Guide(GuideKind.JSON_SCHEMA, json.dumps(SCHEMA)))
    chunks = await chunks_of(engine, schema)
    answer = loads(text_of(chunks))
    assert set(answer) == {"name", "age"}
    assert isinstance(answer["name"], str)
    assert len(answer["name"]) <= 9
    assert isinstance(answer["age"], int)
    assert answer["age"] <= 99
    assert len(chunks) > 5, "a guided answer streams like any other"
    await engine.close()


async def test_an_engine_of_ids_follows_a_guide_of_every_kind(server: RunningTriton) -> None:
    """The engines of text send the kinds by the same names (test_triton_signature.py) to the same model."""
    engine = engine_on(server, name=MODEL_NAME)
    regex = asked("Which year?", guide=Guide(GuideKind.REGEX, "[12][0-9]{3}"))
    assert re.fullmatch("[12][0-9]{3}", text_of(await chunks_of(engine, regex)))
    grammar = asked("Is it?", guide=Guide(GuideKind.EBNF, 'root ::= "yes" | "no"'))
    assert text_of(await chunks_of(engine, grammar)) in ("yes", "no")
    assert text_of(await chunks_of(engine, asked("Hi", max_tokens=5, guide=Guide(GuideKind.JSON)))).startswith("{")
    await engine.close()


async def test_a_guide_for_a_model_that_takes_none_is_refused(server: RunningTriton) -> None:
    engine = engine_on(server, name="llmapi")
    assert "guide" not in await engine.controls()
    with pytest.raises(EngineFault, match="no input for guide"):
        await chunks_of(engine, asked(QUESTION, guide=Guide(GuideKind.JSON)))
    await engine.close()


async def test_generation_stops_within_one_token_of_a_cancellation(server: RunningTriton, engine: Engine) -> None:
    """The best of several tries counts: on a busy machine either end may pause for longer than a token takes."""
    beyond: list[int] = []
    while len(beyond) < TRIES and min(beyond, default=2) > 1:
        request = asked("Tell me a very long story about a dog.", max_tokens=400)
        seen: list[EngineChunk] = []
        async with aclosing(pushed.chunks(engine, await at_level(engine, request))) as batches:
            async for batch in batches:
                seen += batch
                if len(seen) >= 5:
                    break
        line = await server.logged(f"request_id={request.request_id}")
        beyond.append(int(re.findall(r"cancelled after (\d+) tokens", line)[0]) - tokens_in(text_of(seen)))
    assert min(beyond) <= 1, beyond


async def test_each_id_has_a_log_probability(server: RunningTriton) -> None:
    engine = engine_on(server, name=MODEL_NAME)
    chunks = only(TokenChunk, await chunks_of(engine, asked(QUESTION, top_logprobs=0)))
    assert all(len(chunk.logprobs) == len(chunk.ids) for chunk in chunks)
    assert all(-20 < place.logprob <= 0 for chunk in chunks for place in chunk.logprobs)
    await engine.close()
