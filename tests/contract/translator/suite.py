"""The behaviour of every Translator, in this process or behind gRPC. A test module subclasses the suite and provides
the fixture `served`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest

from antiphon_core import events, response
from antiphon_core.errors import EngineTimeout, InvalidRequest, ModelNotFound, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Resume, Translator, Turn
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step, Wait
from tests.support import pushed
from tests.support.prompts import ids_in
from tests.support.served_models import END_ID, tokenizer, turn
from tests.support.waiting import WAIT_MAX_S, with_retries

SAYING_HELLO: list[Step] = [Emit([token]) for token in [*tokenizer().encode("Hello there"), END_ID]]


@dataclass
class Served:
    """A translator of one model named `m`, and the engine behind it."""

    translator: Translator
    engine: ScriptedEngine


async def run(served: Served, script: list[Step], given: Turn | None = None) -> list[Batch]:
    served.engine.script = script
    return [batch async for batch in pushed.generated(served.translator, given or turn("Hi"))]


class TranslatorSuite:
    async def test_a_turn_has_dense_sequence_numbers_and_ends_with_its_record(self, served: Served) -> None:
        batches = await run(served, SAYING_HELLO)
        log = [event for batch in batches for event in events.decode(batch.frames)]
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        assert sum(batch.count for batch in batches) == len(log)
        final = batches[-1].final
        assert final is not None
        assert [batch.final for batch in batches[:-1]] == [None] * (len(batches) - 1)
        assert fold(log) == loads(final.body) | {"output": loads(final.output_items)}
        assert final.status is Status.COMPLETED

    async def test_a_resumed_turn_continues_behind_its_last_token(self, served: Served) -> None:
        served.engine.script = SAYING_HELLO
        before: list[Batch] = []
        async with aclosing(pushed.generated(served.translator, turn("Hi"), checkpoints=True)) as batches:
            async for batch in batches:
                before.append(batch)
                if batch.token_ids:
                    break
        ids = [token_id for batch in before for token_id in batch.token_ids]
        resume = Resume(before[-1].first_sequence + before[-1].count, ids)
        served.engine.script = SAYING_HELLO[len(ids) :]
        after = [batch async for batch in pushed.generated(served.translator, turn("Hi"), resume=resume)]
        log = [event for batch in [*before, *after] for event in events.decode(batch.frames)]
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        assert fold(log)["output"][0]["content"][0]["text"] == "Hello there"
        assert ids_in(served.engine.requests[-1])[-len(ids) :] == ids

    async def test_history_reaches_the_model(self, served: Served) -> None:
        alone = await served.translator.count_tokens(turn("And of Italy?"))
        earlier = loads(turn("What is the capital of France?").input)
        behind = await served.translator.count_tokens(turn("And of Italy?", history=earlier))
        assert behind > alone > 0

    async def test_check_raises_the_errors_before_the_first_batch(self, served: Served) -> None:
        await served.translator.check(turn("Hi"))
        json_answer: Object = {"text": {"format": {"type": "json_object"}}}  # the engine takes no guides
        for wrong in (turn("Hi", temperature=7), turn("Hi", **json_answer)):
            with pytest.raises(InvalidRequest) as generated:
                await run(served, [], wrong)
            with pytest.raises(InvalidRequest) as checked:
                await served.translator.check(wrong)
            assert (checked.value.field, checked.value.code) == (generated.value.field, generated.value.code)
        assert served.engine.requests == []

    async def test_a_turn_at_max_output_tokens_is_incomplete(self, served: Served) -> None:
        final = (await run(served, [Emit([20, 21])], turn("Hi", max_output_tokens=2)))[-1].final
        assert final is not None
        assert final.status is Status.INCOMPLETE

    async def test_an_unknown_model_is_raised_before_the_first_batch(self, served: Served) -> None:
        with pytest.raises(ModelNotFound, match="'other'"):
            await run(served, [], replace(turn("Hi"), request=b'{"model":"other"}'))

    async def test_an_invalid_request_is_rejected_with_its_field(self, served: Served) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await run(served, [], turn("Hi", temperature=7))
        assert (caught.value.field, caught.value.code) == ("temperature", "decimal_above_max_value")

    async def test_a_bad_schema_is_raised_before_the_first_batch(self, served: Served) -> None:
        bad = {"type": "json_schema", "name": "n", "schema": {"type": "strnig"}}
        with pytest.raises(InvalidRequest, match="Invalid schema for response_format 'n'") as caught:
            await run(served, SAYING_HELLO, turn("Hi", text={"format": bad}))
        assert (caught.value.field, caught.value.code) == ("text.format.schema", "invalid_json_schema")

    @pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
    async def test_an_error_about_a_very_long_name_keeps_its_type_and_field(self, served: Served, letter: str) -> None:
        nobody = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": letter * 20_000}]}
        with pytest.raises(InvalidRequest, match="^Tool choice 'x*é*漢*😀* .* not found") as caught:
            await run(served, SAYING_HELLO, turn("Hi", tools=[{"type": "function", "name": "f"}], tool_choice=nobody))
        assert (caught.value.field, caught.value.code) == ("tool_choice.tools[0]", "invalid_value")

    async def test_an_engine_fault_is_sent_in_the_last_batch(self, served: Served) -> None:
        batches = await run(served, [Emit([20]), Break(EngineTimeout("no token"))])
        final = batches[-1].final
        assert final is not None
        assert final.status is Status.FAILED
        assert isinstance(response.error_of(loads(final.body)), EngineTimeout)
        kinds = [event["type"] for batch in batches for event in events.decode(batch.frames)]
        assert kinds[-2:] == [events.ERROR, events.FAILED]
        assert [event["type"] for event in events.decode(batches[-1].frames)] == kinds[-2:]

    async def test_closing_the_generator_stops_the_engine(self, served: Served) -> None:
        served.engine.script = [Emit([20]), Wait(0.01), Emit([21]), Hang()]
        async with aclosing(pushed.generated(served.translator, turn("Hi"))) as batches:
            await anext(batches)
            await anext(batches)
        async with asyncio.timeout(WAIT_MAX_S):
            await served.engine.stopped.wait()

    async def test_a_paused_flow_pauses_the_engine_until_it_resumes(self, served: Served) -> None:
        served.engine.script = [Emit([20]), Wait(0.01), *(Emit([21]) for _ in range(50_000)), Emit([END_ID])]
        flow, received, first = Flow(), list[Batch](), asyncio.Event()

        def receive(batch: Batch) -> None:
            received.append(batch)
            if not first.is_set():
                flow.pause(self)
                first.set()

        running = asyncio.create_task(served.translator.generate(turn("Hi"), receive, flow=flow))
        async with asyncio.timeout(WAIT_MAX_S):
            await first.wait()
            await asyncio.sleep(0.1)
            assert not running.done()
            assert len(received) < 10
            flow.resume(self)
            await running
        assert received[-1].final is not None

    async def test_models_are_listed_with_their_readiness(self, served: Served) -> None:
        (model,) = await served.translator.models()
        assert (model.id, model.root, model.context_length, model.ready, model.reason) == ("m", "m", 8192, True, "")

    async def test_a_translator_is_ready_while_a_model_is_ready(self, served: Served) -> None:
        await with_retries(served.translator.ready)
        served.engine.unavailable = "It is gone."
        await run(served, [Break(EngineTimeout("no answer"))])
        async with asyncio.timeout(WAIT_MAX_S):
            while True:
                try:
                    await served.translator.ready()
                except TranslatorUnavailable:
                    break
                await asyncio.sleep(0.05)
