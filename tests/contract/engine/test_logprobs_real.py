"""Log probabilities of a real model on a real Triton, from the request to the events, as the OpenAI SDK reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from openai.types.responses import Response, ResponseOutputMessage, ResponseOutputText, ResponseTextDeltaEvent
from openai.types.responses.response_output_text import Logprob

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.request.body import OUTPUT_LOGPROBS
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import read_layout
from antiphon_translator.engines import registry
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support import pushed
from tests.support.schema import validate_event, validate_response
from tests.support.served_models import model, turn
from tests.support.triton import server_venv, smollm2_repository, triton_repository

pytestmark = pytest.mark.asyncio(loop_scope="module")

VLLM = "vllm_model"
CONTEXT_LENGTH = 512
QUESTION = "What is the capital of France?"
CAPITALS = ["The", " capital", " of", " France", " is", " Paris", "."]
EMOJI = "Repeat: ☃ café 🤖"
"""The model answers with tokens that are parts of characters."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def translator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TranslatorService]:
    """SmolLM2 as two models: under the signature with ids, and under the one with alternatives."""
    gguf = read_layout(server_venv()).packaged_gguf
    folder = tmp_path_factory.mktemp("repository") / "models"
    names = (MODEL_NAME, VLLM)
    repository = smollm2_repository(folder, gguf, *names, slots=2, context_length=CONTEXT_LENGTH)
    async with triton_repository(repository, *names) as server:
        service = TranslatorService(TranslatorSettings(), clock=SystemClock())
        for name in names:
            profile = ModelProfile(name=name, directory=Path(), endpoint=server.grpc_address, triton_model=name)
            engine = registry.create(profile, TritonChannels())
            service.add(model(name=name, context_length=CONTEXT_LENGTH), engine)
        yield service
        await service.close()


async def run(translator: TranslatorService, name: str, text: str, **more: Any) -> list[Object]:
    """The events of a turn at temperature 0."""
    request = {"model": name, "temperature": 0, "include": [OUTPUT_LOGPROBS], "max_output_tokens": 40, **more}
    asked = turn(text, history=[], **request)
    async with aclosing(pushed.generated(translator, asked)) as batches:
        log = [event async for batch in batches for event in events.decode(batch.frames)]
    for event in log:
        validate_event(event)
    validate_response(log[-1]["response"])
    assert fold(log) == log[-1]["response"]
    return log


def read(log: Sequence[Object]) -> tuple[str, list[Logprob]]:
    """The text of the answer and its tokens as the SDK reads them. The tokens of the deltas must be equal."""
    response = Response.model_validate(log[-1]["response"], strict=True)
    (message,) = response.output
    assert isinstance(message, ResponseOutputMessage)
    (part,) = message.content
    assert isinstance(part, ResponseOutputText)
    assert part.logprobs is not None
    deltas = [
        ResponseTextDeltaEvent.model_validate(event) for event in log if event["type"] == events.OUTPUT_TEXT_DELTA
    ]
    told = [(each.token, each.logprob) for delta in deltas for each in delta.logprobs]
    assert told == [(each.token, each.logprob) for each in part.logprobs]
    return part.text, part.logprobs


@pytest.mark.parametrize("name", [MODEL_NAME, VLLM])
async def test_each_token_has_its_log_probability(translator: TranslatorService, name: str) -> None:
    text, tokens = read(await run(translator, name, QUESTION))
    assert text == "".join(CAPITALS)
    assert [token.token for token in tokens] == CAPITALS
    assert all(-5 < token.logprob <= 0 and token.top_logprobs == [] for token in tokens)
    assert tokens[-1].logprob == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("name", [MODEL_NAME, VLLM])
async def test_tokens_of_split_characters_have_their_bytes(translator: TranslatorService, name: str) -> None:
    text, tokens = read(await run(translator, name, EMOJI))
    assert b"".join(bytes(token.bytes) for token in tokens) == text.encode()
    assert any(token.token == "�" for token in tokens)


async def test_both_signatures_have_equal_log_probabilities(translator: TranslatorService) -> None:
    by_ids, by_text = [read(await run(translator, name, EMOJI)) for name in (MODEL_NAME, VLLM)]
    assert by_ids[0] == by_text[0]
    assert [each.bytes for each in by_ids[1]] == [each.bytes for each in by_text[1]]
    assert [each.logprob for each in by_ids[1]] == pytest.approx([each.logprob for each in by_text[1]], abs=1e-3)


@pytest.mark.parametrize("name", [MODEL_NAME, VLLM])
async def test_alternatives_are_ranked_and_the_chosen_one_is_the_likeliest(
    translator: TranslatorService, name: str
) -> None:
    log = await run(translator, name, QUESTION, top_logprobs=3)
    assert log[-1]["response"]["top_logprobs"] == 3
    _, tokens = read(log)
    for token in tokens:
        likeliest, *others = token.top_logprobs
        assert (likeliest.token, likeliest.bytes, likeliest.logprob) == (token.token, token.bytes, token.logprob)
        assert len(others) == 2
        assert [each.logprob for each in token.top_logprobs] == sorted(
            (each.logprob for each in token.top_logprobs), reverse=True
        )


@pytest.mark.parametrize("name", [MODEL_NAME, VLLM])
async def test_log_probabilities_are_absent_without_the_include(translator: TranslatorService, name: str) -> None:
    text, tokens = read(await run(translator, name, QUESTION, include=[], top_logprobs=5))
    assert (text, tokens) == ("".join(CAPITALS), [])
