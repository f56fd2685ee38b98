"""The scripted engine keeps the contract, and so do two of them behind one another."""

from __future__ import annotations

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step, Wait
from antiphon_translator.generation import EngineChunk, GenerationRequest
from tests.contract.engine.suite import EngineContract, Stage
from tests.support.engine_plays import Ending, Play

ENDINGS: dict[Ending, list[Step]] = {
    Ending.BY_ITSELF: [],
    Ending.SILENCE: [Hang()],
    Ending.ERROR: [Break(EngineFault("out of paper"))],
    Ending.LOST: [Break(EngineUnavailable("gone"))],
}


def staged(play: Play) -> ScriptedEngine:
    messages = [step for ids in play.messages for step in (Wait(play.pause_s), Emit(ids))]
    engine = ScriptedEngine([*messages, *ENDINGS[play.ending]])
    engine.stopped = play.stopped
    return engine


class TestScripted(EngineContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return staged


class TestEndpoints(EngineContract):
    """Both endpoints play the play: what one loses, the other one loses too."""

    @pytest.fixture
    def stage(self) -> Stage:
        return lambda play: EndpointsEngine({"a": staged(play), "b": staged(play)}, SystemClock())


async def test_a_batch_holds_all_messages_that_arrive_together() -> None:
    engine = ScriptedEngine([Emit([1], [2, 3])])
    request = GenerationRequest("r", 10, (1,))
    assert [list(batch) async for batch in engine.generate(request)] == [[EngineChunk((1,)), EngineChunk((2, 3))]]
