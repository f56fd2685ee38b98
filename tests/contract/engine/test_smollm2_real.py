"""A real model on a real Triton, under every signature: what a turn needs of an engine, and turns of the whole
translator."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from antiphon.local.repository import MODEL_NAME, TEXT_MODELS, write_model_repository
from antiphon.local.server_venv import read_layout
from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Turn
from antiphon_translator.engines import registry
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.generation import (
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    Sampling,
    Usage,
)
from antiphon_translator.profiles import ModelProfile
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.contract.engine.suite import SOON_S
from tests.support.served_models import END_ID, FILES, message, model, tokenizer, turn
from tests.support.triton import RunningTriton, server_venv, triton_repository

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNATURES = (MODEL_NAME, *TEXT_MODELS)
GUIDED = tuple(name for name in SIGNATURES if name != "llmapi")
"""The LLM-API model has no inputs for guides."""
CONTEXT_LENGTH = 1024
_NUMBERS = count(1)


@cache
def vocabulary() -> Tokenizer:
    return Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))


def ids_of(text: str) -> list[int]:
    """The ids of a text, control tokens where they are spelt out."""
    ids: list[int] = vocabulary().encode(text, add_special_tokens=False).ids
    return ids


def asked(text: str, **changes: object) -> GenerationRequest:
    """A question at temperature 0, for engines of every level."""
    prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    request = GenerationRequest(
        request_id=f"smol-{next(_NUMBERS)}",
        max_tokens=40,
        prompt_text=prompt,
        prompt_ids=ids_of(prompt),
        stop_ids=(END_ID,),
        sampling=Sampling(temperature=0.0),
    )
    return replace(request, **changes)  # type: ignore[arg-type]


QUESTION = "What is the capital of France?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTriton]:
    async with smollm2(tmp_path_factory.mktemp("repository"), *SIGNATURES) as running:
        yield running


def smollm2(folder: Path, *names: str) -> AbstractAsyncContextManager[RunningTriton]:
    """A server with the packaged model under these signatures."""
    gguf = read_layout(server_venv()).packaged_gguf
    repository = write_model_repository(
        folder / "models", gguf=gguf, context_length=CONTEXT_LENGTH, slots=4, models=names
    )
    return triton_repository(repository, *names)


def profile_for(server: RunningTriton, name: str) -> ModelProfile:
    return ModelProfile(name="m", directory=Path(), endpoint=server.grpc_address, triton_model=name)


@pytest_asyncio.fixture(loop_scope="module", params=SIGNATURES)
async def engine(server: RunningTriton, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = registry.create(profile_for(server, request.param), TritonChannels())
    yield made
    await made.close()


async def chunks_of(engine: Engine, request: GenerationRequest) -> list[EngineChunk]:
    async with aclosing(engine.generate(request)) as batches:
        return [chunk async for batch in batches for chunk in batch]


def text_of(chunks: list[EngineChunk]) -> str:
    ids = [token for chunk in chunks for token in chunk.token_ids]
    return "".join(chunk.text for chunk in chunks) + vocabulary().decode(ids)


def tokens_in(text: str) -> int:
    return len(ids_of(text))


async def test_it_streams_the_same_text_and_counts_exactly(engine: Engine) -> None:
    request = asked(QUESTION)
    chunks = await chunks_of(engine, request)
    assert text_of(chunks) == "The capital of France is Paris."
    assert len(chunks) > 5
    if engine.level is Level.TEXT:
        assert chunks[-1].finish is FinishReason.STOP
        assert chunks[-1].usage in (None, *usages(request, "The capital of France is Paris."))


def usages(request: GenerationRequest, text: str) -> list[Usage]:
    """With or without the token that ended the turn: vLLM counts it, TensorRT-LLM does not."""
    return [Usage(len(request.prompt_ids), tokens_in(text) + more) for more in (0, 1)]


@pytest.mark.parametrize("name", ["ensemble", "tensorrt_llm_bls", "vllm_model"])
async def test_all_that_count_do(server: RunningTriton, name: str) -> None:
    engine = registry.create(profile_for(server, name), TritonChannels())
    request = asked("Tell me a long story.", max_tokens=7)
    chunks = await chunks_of(engine, request)
    assert chunks[-1].usage == Usage(len(request.prompt_ids), 7)
    assert chunks[-1].finish is FinishReason.LENGTH
    await engine.close()


async def test_it_ends_at_the_length(engine: Engine) -> None:
    chunks = await chunks_of(engine, asked("Tell me a long story.", max_tokens=7))
    assert tokens_in(text_of(chunks)) == 7
    if engine.level is Level.TEXT:
        assert chunks[-1].finish is FinishReason.LENGTH


@pytest.mark.parametrize("name", TEXT_MODELS)
@pytest.mark.parametrize("stop", [" France", "ance is", "capi"])
async def test_it_stops_on_stop_texts(server: RunningTriton, name: str, stop: str) -> None:
    engine = registry.create(profile_for(server, name), TritonChannels())
    chunks = await chunks_of(engine, asked(QUESTION, stop=("nowhere", stop)))
    assert text_of(chunks) == "The capital of France is Paris.".partition(stop)[0]
    assert chunks[-1].finish is FinishReason.STOP
    await engine.close()


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", GUIDED)
async def test_it_honours_a_guide(server: RunningTriton, name: str) -> None:
    engine = registry.create(profile_for(server, name), TritonChannels())
    assert "guide" in await engine.controls()
    schema = asked("Bob is 42 years old.", max_tokens=100, guide=Guide(GuideKind.JSON_SCHEMA, json.dumps(SCHEMA)))
    answer = loads(text_of(await chunks_of(engine, schema)))
    assert set(answer) == {"name", "age"}
    assert isinstance(answer["age"], int)
    regex = asked("Which year?", guide=Guide(GuideKind.REGEX, "[12][0-9]{3}"))
    assert re.fullmatch("[12][0-9]{3}", text_of(await chunks_of(engine, regex)))
    grammar = asked("Is it?", guide=Guide(GuideKind.EBNF, 'root ::= "yes" | "no"'))
    assert text_of(await chunks_of(engine, grammar)) in ("yes", "no")
    assert text_of(await chunks_of(engine, asked("Hi", guide=Guide(GuideKind.JSON)))).startswith("{")
    await engine.close()


async def test_it_stops_within_one_token_of_a_cancel(server: RunningTriton, engine: Engine) -> None:
    """The best of three counts: on a busy machine either end may be held up for longer than a token takes."""
    beyond = []
    for _ in range(3):
        request = asked("Tell me a very long story about a dog.", max_tokens=400)
        seen: list[EngineChunk] = []
        async with aclosing(engine.generate(request)) as batches:
            async for batch in batches:
                seen += batch
                if len(seen) >= 5:
                    break
        line = await server.logged(f"request_id={request.request_id}")
        beyond.append(int(re.findall(r"cancelled after (\d+) tokens", line)[0]) - tokens_in(text_of(seen)))
    assert min(beyond) <= 1, beyond


async def test_log_probabilities_of_the_ids(server: RunningTriton) -> None:
    engine = registry.create(profile_for(server, MODEL_NAME), TritonChannels())
    chunks = await chunks_of(engine, asked(QUESTION, top_logprobs=0))
    assert all(len(chunk.logprobs) == len(chunk.token_ids) for chunk in chunks)
    assert all(-20 < place.logprob <= 0 for chunk in chunks for place in chunk.logprobs)
    await engine.close()


# ---- the whole translator ----


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def translator(server: RunningTriton) -> AsyncIterator[TranslatorService]:
    """The whole translator in front of the packaged model."""
    service = TranslatorService(TranslatorSettings(), clock=SystemClock())
    service.add(
        model(context_length=CONTEXT_LENGTH), registry.create(profile_for(server, MODEL_NAME), TritonChannels())
    )
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


def written(record: Object) -> str:
    return str(record["output"][0]["content"][0]["text"])


async def test_a_question_and_its_follow_up(translator: TranslatorService) -> None:
    question = turn("What is the capital of France?", temperature=0, max_output_tokens=40)
    _, first = await run(translator, question)
    assert "Paris" in written(first)
    assert first["status"] == "completed"
    assert first["usage"]["input_tokens"] == await translator.count_tokens(question)
    assert first["usage"]["output_tokens"] == len(tokenizer().encode(written(first)))

    history = [message("user", "What is the capital of France?"), *first["output"]]
    _, second = await run(translator, turn("And of Italy?", history=history, temperature=0, max_output_tokens=40))
    assert "Rome" in written(second)
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


async def test_the_length_limit_is_exact(translator: TranslatorService) -> None:
    _, record = await run(translator, turn("Tell me a long story.", temperature=0, max_output_tokens=7))
    assert (record["status"], record["usage"]["output_tokens"]) == ("incomplete", 7)


async def test_sampling_is_not_the_same_every_time_and_text_streams(translator: TranslatorService) -> None:
    given = turn("Tell me a long story.", temperature=1.5, max_output_tokens=24)
    results = await asyncio.gather(*(run(translator, given) for _ in range(3)))
    assert len({written(record) for _, record in results}) > 1
    assert all(len(batches) > 5 for batches, _ in results)


async def test_a_turn_that_is_closed_stops_the_model(translator: TranslatorService) -> None:
    async with asyncio.timeout(SOON_S):
        for _ in range(6):  # more than the model has slots: they must come free
            async with aclosing(translator.generate(turn("Tell me a long story."))) as batches:
                for _ in range(3):
                    await anext(batches)
        _, record = await run(translator, turn("Hi", temperature=0, max_output_tokens=2))
    assert record["status"] in {Status.INCOMPLETE.value, Status.COMPLETED.value}


# ---- two servers ----


async def test_a_server_that_is_killed_in_mid_stream_leaves_no_trace(tmp_path: Path) -> None:
    given = turn("Tell me a story about a dog called Rex.", temperature=0, max_output_tokens=60)
    async with smollm2(tmp_path / "a", MODEL_NAME) as first, smollm2(tmp_path / "b", MODEL_NAME) as second:
        addresses = [server.grpc_address for server in (first, second)]
        profile = replace(profile_for(first, MODEL_NAME), endpoints=tuple(addresses))
        engine = registry.create(profile, TritonChannels())
        assert isinstance(engine, EndpointsEngine)
        service = TranslatorService(TranslatorSettings(), clock=SystemClock())
        service.add(model(context_length=CONTEXT_LENGTH), engine)
        undisturbed = [(await run(service, given))[1] for _ in addresses]  # one on each, in turn
        assert written(undisturbed[0]) == written(undisturbed[1])

        batches = []
        async for batch in service.generate(given):
            batches.append(batch)
            if len(batches) == 20:
                first.kill()
        assert engine.migrations == 1
        log = [event for batch in batches for event in events.decode(batch.frames)]
        record: Object = fold(log)
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        assert [event["type"] for event in log].count("response.output_item.added") == 1
        assert written(record) == written(undisturbed[0])
        assert record["usage"] == undisturbed[0]["usage"]
        assert record["status"] == undisturbed[0]["status"]
        await service.close()
