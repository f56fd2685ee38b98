"""The whole translator with a real model on a real Triton, under every signature: streaming, exact usage, and
cancellation of the model."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache

import jsonschema_rs
import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from antiphon_core import events
from antiphon_core.errors import EngineMisconfigured, InvalidRequest
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry import metrics
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.service import TranslatorService
from tests.support import pushed
from tests.support.served_models import FILES, message, tokenizer, turn
from tests.support.triton import SIGNATURES, RunningTriton, ScriptedModel, smollm2_server, triton_server
from tests.support.turns import engine_on, named, run, serving
from tests.support.waiting import least

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNTS_THE_END = {"vllm_model"}
"""vLLM counts the token that ends a turn; TensorRT-LLM neither shows nor counts its `end_id`."""
ASK = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
"""SmolLM2's template, written out."""
FRANCE, PARIS = "What is the capital of France?", "The capital of France is Paris."
STORY = "Tell me a long story."
CHINESE = "Translate to Chinese: good morning"
TAKES_NO_GUIDES = "llmapi"
PERSON: Object = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
AS_A_PERSON: Object = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": False}}


def tokens_in(text: str) -> int:
    """The token count of the tokenizer's own library."""
    return len(vocabulary().encode(text, add_special_tokens=False).ids)


@cache
def vocabulary() -> Tokenizer:
    return Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))


# ---- a language model ----


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with smollm2_server(*SIGNATURES) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", params=SIGNATURES)
async def signature(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="module")
async def translator(server: RunningTriton, signature: str) -> AsyncIterator[TranslatorService]:
    async with serving(engine_on(server, name=signature)) as service:
        yield service


async def test_an_answer_streams_and_is_counted_exactly(translator: TranslatorService, signature: str) -> None:
    given = turn(FRANCE, temperature=0, max_output_tokens=40)
    ran = await run(translator, given)
    assert (ran.text, ran.record["status"]) == (PARIS, Status.COMPLETED.value)
    assert len(ran.deltas) == tokens_in(PARIS)
    prompt_tokens = tokens_in(ASK.format(FRANCE))
    assert prompt_tokens == await translator.count_tokens(given)
    assert ran.usage == (prompt_tokens, tokens_in(PARIS) + (signature in COUNTS_THE_END))


async def test_model_that_triton_does_not_know_is_no_error_that_passes(server: RunningTriton) -> None:
    """An operator has to correct it: 502, which clients and workers do not retry."""
    async with serving(engine_on(server, name="nope")) as service:
        with pytest.raises(EngineMisconfigured, match="has no such model"):
            await run(service, turn(FRANCE))


async def test_a_follow_up_is_answered_in_its_context(translator: TranslatorService) -> None:
    history = [message("user", FRANCE), message("assistant", PARIS)]
    given = turn("And of Italy?", history=history, temperature=0, max_output_tokens=40)
    ran = await run(translator, given)
    assert "Rome" in ran.text
    before = ASK.format(FRANCE) + f"{PARIS}<|im_end|>\n"
    assert ran.usage[0] == tokens_in(before + ASK.format("And of Italy?")) == await translator.count_tokens(given)


async def test_the_length_limit_is_exact(translator: TranslatorService) -> None:
    ran = await run(translator, turn(STORY, temperature=0, max_output_tokens=7))
    assert ran.record["status"] == Status.INCOMPLETE.value
    assert ran.record["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ran.usage == (tokens_in(ASK.format(STORY)), 7)
    assert tokens_in(ran.text) == 7


async def test_characters_of_several_tokens_are_whole_and_counted(
    translator: TranslatorService, signature: str
) -> None:
    ran = await run(translator, turn(CHINESE, temperature=0, max_output_tokens=20))
    assert ran.usage == (tokens_in(ASK.format(CHINESE)), 20)
    if signature != "ensemble":  # an ensemble decodes every token by itself
        assert ran.text == "晨花花花花花"
        assert tokens_in(ran.text) < 20, "the last character was cut off, and its tokens were made"


@pytest.mark.parametrize("stop", ["ance is", "."])
async def test_a_stop_text_ends_the_answer_and_is_not_shown(translator: TranslatorService, stop: str) -> None:
    """Covers a stop text that begins within a token and spans several, and a stop text at the end of the answer."""
    ran = await run(translator, named(turn(FRANCE, temperature=0, max_output_tokens=40, stop=["nowhere", stop])))
    shown, found, _ = PARIS.partition(stop)
    assert (ran.text, ran.record["status"]) == (shown, Status.COMPLETED.value)
    assert ran.usage[0] == tokens_in(ASK.format(FRANCE))
    assert tokens_in(shown) <= ran.usage[1] <= tokens_in(shown + found) + 1


async def test_an_answer_follows_its_json_schema_or_the_format_is_rejected(
    translator: TranslatorService, signature: str
) -> None:
    given = named(turn("Bob is 42 years old.", temperature=0, max_output_tokens=100, text=AS_A_PERSON))
    if signature == TAKES_NO_GUIDES:
        with pytest.raises(InvalidRequest, match=r"'text\.format' is not supported") as caught:
            await run(translator, given)
        assert (caught.value.field, caught.value.code) == ("text.format", "unsupported_parameter")
        return
    mismatches = metrics.FORMAT_MISMATCHES.of(MODEL_NAME)
    before = mismatches.value
    ran = await run(translator, given)
    assert ran.record["status"] == Status.COMPLETED.value
    assert jsonschema_rs.is_valid(PERSON, loads(ran.text)), ran.text
    assert ran.record["text"]["format"]["schema"] == PERSON
    assert len(ran.deltas) > 5, "a guided answer streams like any other"
    assert mismatches.value == before


async def test_sampling_is_not_the_same_every_time(server: RunningTriton) -> None:
    given = turn(STORY, temperature=1.5, max_output_tokens=16)
    async with serving(engine_on(server, name=MODEL_NAME)) as translator:
        texts = [ran.text for ran in await asyncio.gather(*(run(translator, named(given)) for _ in range(3)))]
    assert len(set(texts)) > 1


async def test_turns_that_are_closed_free_the_model(server: RunningTriton) -> None:
    closed = [named(turn(STORY, temperature=0)) for _ in range(6)]  # more than the model has slots
    async with serving(engine_on(server, name=MODEL_NAME)) as translator:
        for each in closed:
            await heard(translator, each, deltas=1)
        ran = await run(translator, turn("Hi", temperature=0, max_output_tokens=2))
    assert ran.usage[1] <= 2
    for each in closed:
        await server.tokens_when_cancelled(each.response_id)  # none reached its end


async def heard(translator: TranslatorService, given: Turn, *, deltas: int) -> int:
    """Closes a turn behind at least `deltas` deltas, and returns how many came."""
    count = 0
    async with aclosing(pushed.generated(translator, given)) as batches:
        while count < deltas:
            kinds = [event["type"] for event in events.decode((await anext(batches)).frames)]
            count += kinds.count(events.OUTPUT_TEXT_DELTA)
    return count


# ---- slow scripted models: there is time to look at each token ----

PAUSE_MS = 150.0
LONG = 20
"""Tokens that take seconds, so that a cancelled generation cannot reach its end on a busy machine."""
ENSEMBLE = "three_steps"
"""An ensemble that Triton's own scheduler runs."""
SAYS = tokenizer().encode("One moment. " * 40)
PIECES = [tokenizer().decode([token_id]) for token_id in SAYS]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow() -> AsyncIterator[RunningTriton]:
    models = [
        ScriptedModel(name, delay_ms=PAUSE_MS, says=SAYS if name == MODEL_NAME else PIECES, signature=name)
        for name in SIGNATURES
    ]
    letters = [ord(letter) for letter in "".join(PIECES)]
    ensemble = ScriptedModel(ENSEMBLE, delay_ms=PAUSE_MS, says=letters, signature="ensemble", in_ensemble=True)
    async with triton_server(*models, ensemble) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", params=(*SIGNATURES, ENSEMBLE))
async def slow_translator(slow: RunningTriton, request: pytest.FixtureRequest) -> AsyncIterator[TranslatorService]:
    async with serving(engine_on(slow, name=request.param)) as service:
        yield service


async def test_the_model_stops_within_one_token_of_a_cancel(
    slow: RunningTriton, slow_translator: TranslatorService
) -> None:
    async def tokens_too_many() -> int:
        given = named(turn("Hi"))
        deltas = await heard(slow_translator, given, deltas=4)
        tokens = await slow.tokens_when_cancelled(given.response_id)
        assert tokens >= deltas
        return tokens - deltas

    assert await least(tokens_too_many, most=1) <= 1


async def test_the_model_stops_after_a_cancellation_before_the_first_token(
    slow: RunningTriton, slow_translator: TranslatorService
) -> None:
    async def tokens() -> int:
        given = named(turn("Hi"))
        running = asyncio.create_task(run(slow_translator, given))
        await slow.logged(f"begun id={given.response_id}")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await slow.tokens_when_cancelled(given.response_id)

    assert await least(tokens, most=1) <= 1


async def test_stopping_the_first_attempt_does_not_stop_the_guided_retry(slow: RunningTriton) -> None:
    """A model that may reason is cancelled where its answer begins, and asked again with a guide. An ensemble is
    cancelled by a stop request, which must not end the second generation."""
    asked = turn("Hi", max_output_tokens=LONG, text={"format": {"type": "json_object"}})

    async with serving(engine_on(slow, name=ENSEMBLE), can_reason=True) as service:

        async def tokens_of_the_first() -> int:
            given = named(asked)
            ran = await run(service, given)
            assert (ran.text, ran.record["status"]) == ("".join(PIECES)[:LONG], Status.INCOMPLETE.value)
            return await slow.tokens_when_cancelled(given.response_id)

        assert await least(tokens_of_the_first, most=2) <= 2
