"""The scripted engine keeps the contract, and so do two scripted engines as endpoints of one engine."""

from __future__ import annotations

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step, Wait
from antiphon_translator.generation import GenerationRequest, TokenChunk, TokenPrompt
from tests.contract.engine.suite import EngineContract, Stage
from tests.support import pushed
from tests.support.engine_plays import Ending, Play

ENDINGS: dict[Ending, list[Step]] = {
    Ending.BY_ITSELF: [],
    Ending.SILENCE: [Hang()],
    Ending.ERROR: [Break(EngineFault("out of paper"))],
    Ending.LOST: [Break(EngineUnavailable("gone"))],
}


class Staged(ScriptedEngine):
    def __init__(self, play: Play) -> None:
        messages = [step for ids in play.messages for step in (Wait(play.pause_s), Emit(ids))]
        super().__init__([*messages, *ENDINGS[play.ending]])
        self.begun, self.stopped = play.begun, play.stopped

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.begun.set()
        await super().generate(request, deliver, flow)


class TestScripted(EngineContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return Staged


class TestEndpoints(EngineContract):
    """Both endpoints follow one play, so a play that ends with a lost server loses both."""

    @pytest.fixture
    def stage(self) -> Stage:
        return lambda play: EndpointsEngine({"a": Staged(play), "b": Staged(play)}, SystemClock())


async def test_a_batch_holds_all_messages_that_arrive_together() -> None:
    engine = ScriptedEngine([Emit([1], [2, 3])])
    request = GenerationRequest("r", TokenPrompt((1,)), 10)
    assert [list(batch) async for batch in pushed.chunks(engine, request)] == [[TokenChunk((1,)), TokenChunk((2, 3))]]
