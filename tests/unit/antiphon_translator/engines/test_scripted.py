from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Wait
from antiphon_translator.generation import FinishReason, GenerationRequest, TokenChunk, TokenPrompt
from tests.support import pushed

REQUEST = GenerationRequest("r", TokenPrompt((1, 2)), 10)


async def test_each_generation_plays_the_script_and_is_recorded() -> None:
    last = TokenChunk((4,), FinishReason.STOP)
    engine = ScriptedEngine([Emit([1], [2, 3]), Wait(0), Emit(last)])
    for _ in range(2):
        batches = [batch async for batch in pushed.chunks(engine, REQUEST)]
        assert batches == [(TokenChunk((1,)), TokenChunk((2, 3))), (last,)]
    assert engine.requests == [REQUEST, REQUEST]
    assert not engine.stopped.is_set()


async def test_script_that_breaks_is_not_recorded_as_stopped() -> None:
    engine = ScriptedEngine([Break(EngineFault("x"))])
    with pytest.raises(EngineFault):
        await anext(pushed.chunks(engine, REQUEST))
    assert not engine.stopped.is_set()


async def test_closing_a_hanging_generation_is_recorded_as_stopped() -> None:
    engine = ScriptedEngine([Emit([1]), Hang()])
    async with aclosing(pushed.chunks(engine, REQUEST)) as batches:
        await anext(batches)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(batches)
    assert engine.stopped.is_set()


async def test_scripted_engine_is_ready_until_it_is_closed() -> None:
    engine = ScriptedEngine([], controls=frozenset({"top_p"}))
    await engine.ready()
    assert await engine.controls() == {"top_p"}
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await engine.ready()
