from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon_core.errors import EngineFault, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.spans import SpanKind
from antiphon_translator.engines import watched as watched_module
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step
from antiphon_translator.engines.watched import WatchedEngine
from antiphon_translator.generation import GenerationRequest, Level, TokenChunk, TokenPrompt
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.placement import placement_of
from tests.support.pushed import Deliveries
from tests.support.recorded_spans import recorded
from tests.support.served_models import FILES
from tests.support.waiting import until

REQUEST = GenerationRequest(request_id="r", max_tokens=5, prompt=TokenPrompt((1,)))


def watched(name: str, *steps: Step) -> WatchedEngine:
    profile = ModelProfile(name=name, directory=FILES, endpoint="t:1", engine="triton_tokens")
    return WatchedEngine(ScriptedEngine(list(steps)), profile)


async def generate(engine: WatchedEngine) -> None:
    await engine.generate(REQUEST, lambda _: True, Flow())


def is_up(name: str) -> float:
    return metrics.ENGINE_UP.of(name, "t:1").value


async def test_generation_is_recorded_as_a_span_of_its_endpoint() -> None:
    engine = watched("w1", Emit([5]))
    with recorded() as tracer:
        await generate(engine)
    (span,) = tracer.spans
    assert (span.name, span.kind, span.error) == ("chat w1", SpanKind.CLIENT, "")
    assert (span.facts["server.address"], span.facts["gen_ai.request.model"]) == ("t:1", "w1")
    assert metrics.ENGINE_IN_FLIGHT.of("w1", "t:1").value == 0
    assert (is_up("w1"), engine.level) == (1, Level.TOKENS)


@pytest.mark.parametrize("where", [None, "pod-7"])
async def test_first_chunk_of_a_generation_has_its_placement(where: str | None) -> None:
    engine, deliveries = watched("w6", Emit(TokenChunk([5], placement=where), [6]), Emit([7])), Deliveries()
    for _ in range(2):
        await engine.generate(REQUEST, deliveries, Flow())
    chunks = [chunk for received in deliveries.received for chunk in received]
    assert [chunk.placement for chunk in chunks] == [placement_of("t:1", where or ""), None, None] * 2
    assert deliveries.ids == [5, 6, 7] * 2


async def test_unavailable_endpoint_is_down_until_it_answers() -> None:
    engine = watched("w2", Break(EngineUnavailable("gone")))
    evictions = metrics.ENGINE_EVICTIONS.of("w2", "t:1")
    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            await generate(engine)
    assert (is_up("w2"), evictions.value) == (0, 1)
    assert metrics.ENGINE_ERRORS.of("w2", "t:1", "EngineUnavailable").value == 2
    await engine.ready()
    assert is_up("w2") == 1


class Hanging(ScriptedEngine):
    """An engine whose generations fail and whose controls wait for `is_back`."""

    def __init__(self) -> None:
        super().__init__([Break(EngineTimeout("silence"))], controls=frozenset({"x"}))
        self.is_back = asyncio.Event()
        self.questions = 0

    async def controls(self) -> frozenset[str]:
        self.questions += 1
        await self.is_back.wait()
        return await super().controls()


async def test_call_to_an_endpoint_that_is_down_fails_after_a_short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_module, "DOWN_WAIT_S", 0.01)
    hanging = Hanging()
    engine = WatchedEngine(hanging, ModelProfile(name="w5", directory=FILES, endpoint="t:1", engine="triton_tokens"))
    with pytest.raises(EngineTimeout):
        await generate(engine)
    for _ in range(2):
        with pytest.raises(EngineTimeout, match="silence"):
            await engine.controls()
    assert hanging.questions == 1, "it is asked once at a time"
    hanging.is_back.set()
    assert await engine.controls() == {"x"}
    await engine.close()


async def test_prompt_read_in_advance_that_waits_too_long_does_not_mark_the_server_down() -> None:
    engine = watched("w10", Break(EngineTimeout("silence")))
    with pytest.raises(EngineTimeout):
        await engine.generate(replace(REQUEST, is_prewarm=True), lambda _: True, Flow())
    assert is_up("w10") == 1


async def test_engine_fault_does_not_mark_the_server_down() -> None:
    engine = watched("w3", Break(EngineFault("out of paper")))
    with pytest.raises(EngineFault):
        await generate(engine)
    assert is_up("w3") == 1
    assert metrics.ENGINE_ERRORS.of("w3", "t:1", "EngineFault").value == 1


async def test_closed_engine_has_no_up_metric() -> None:
    engine = watched("w4", Emit([5]))
    await engine.close()
    assert ("w4", "t:1") not in metrics.ENGINE_UP.children()


async def test_prompt_is_read_in_advance_only_while_none_waits_for_its_first_output() -> None:
    waiting, answering, deliveries = watched("w8", Hang()), watched("w9", Emit([5]), Hang()), Deliveries()
    prewarm = replace(REQUEST, request_id="p", is_prewarm=True)
    running = [asyncio.create_task(generate(each)) for each in (waiting, answering)]
    await asyncio.sleep(0)
    await waiting.generate(prewarm, deliveries, Flow())
    assert deliveries.ids == []
    running.append(asyncio.create_task(answering.generate(prewarm, deliveries, Flow())))
    await until(lambda: deliveries.ids == [5], "the prompt is read")
    for task in running:
        task.cancel()
    await asyncio.wait(running)
