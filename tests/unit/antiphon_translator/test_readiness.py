from __future__ import annotations

import asyncio

from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineTimeout
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.readiness import Readiness


class CountingEngine(ScriptedEngine):
    asked = 0

    async def ready(self) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        await super().ready()


async def test_an_answer_is_remembered_for_as_long_as_it_lives() -> None:
    engine, clock = CountingEngine([]), ManualClock()
    readiness = Readiness(engine, clock, ttl_s=2)
    assert await readiness.reason() == ""
    engine.unavailable = "gone"
    clock.advance(1.9)
    assert await readiness.reason() == ""
    clock.advance(0.1)
    assert await readiness.reason() == "gone"
    assert engine.asked == 2


async def test_a_doubtful_answer_is_not_given_again() -> None:
    engine = CountingEngine([])
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    assert await readiness.reason() == ""
    engine.unavailable = "gone"
    readiness.invalidate()
    assert await readiness.reason() == "gone"


async def test_invalidation_during_a_probe_drops_the_result_of_the_probe() -> None:
    engine = CountingEngine([])
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    probed = asyncio.create_task(readiness.reason())
    while not engine.asked:
        await asyncio.sleep(0)
    readiness.invalidate()
    assert await probed == ""
    engine.unavailable = "gone"
    assert await asyncio.gather(*(readiness.reason() for _ in range(3))) == ["gone"] * 3
    assert engine.asked == 2


async def test_callers_at_the_same_time_share_one_question() -> None:
    engine = CountingEngine([])
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    assert await asyncio.gather(*(readiness.reason() for _ in range(5))) == [""] * 5
    assert engine.asked == 1


async def test_any_error_of_the_probe_is_a_reason() -> None:
    class Slow(ScriptedEngine):
        async def ready(self) -> None:
            raise EngineTimeout("It did not answer.")

    assert await Readiness(Slow([]), ManualClock(), ttl_s=2).reason() == "It did not answer."
