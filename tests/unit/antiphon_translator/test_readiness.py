from __future__ import annotations

import asyncio

from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineTimeout
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.readiness import Readiness
from tests.support.waiting import until


class CountingEngine(ScriptedEngine):
    """Counts its probes, which end when `may_answer` is set."""

    def __init__(self) -> None:
        super().__init__([])
        self.probes = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ready(self) -> None:
        self.probes += 1
        await asyncio.sleep(0)
        await self.may_answer.wait()
        await super().ready()


async def test_readiness_is_cached_until_its_ttl_ends() -> None:
    engine, clock = CountingEngine(), ManualClock()
    readiness = Readiness(engine, clock, ttl_s=2)
    assert await readiness.reason() == ""
    engine.unavailable = "gone"
    clock.advance(1.9)
    assert await readiness.reason() == ""
    clock.advance(0.1)
    assert await readiness.reason() == "gone"
    assert engine.probes == 2


async def test_invalidated_readiness_is_probed_again() -> None:
    engine = CountingEngine()
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    assert await readiness.reason() == ""
    engine.unavailable = "gone"
    readiness.invalidate()
    assert await readiness.reason() == "gone"


async def test_invalidation_during_a_probe_drops_the_result_of_the_probe() -> None:
    engine = CountingEngine()
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    engine.may_answer.clear()
    probed = asyncio.create_task(readiness.reason())
    await until(lambda: bool(engine.probes), "the probe begins")
    readiness.invalidate()
    engine.may_answer.set()
    assert await probed == ""
    engine.unavailable = "gone"
    assert await asyncio.gather(*(readiness.reason() for _ in range(3))) == ["gone"] * 3
    assert engine.probes == 2


async def test_concurrent_callers_share_one_readiness_probe() -> None:
    engine = CountingEngine()
    readiness = Readiness(engine, ManualClock(), ttl_s=2)
    assert await asyncio.gather(*(readiness.reason() for _ in range(5))) == [""] * 5
    assert engine.probes == 1


async def test_error_of_the_readiness_probe_is_its_reason() -> None:
    class Slow(ScriptedEngine):
        async def ready(self) -> None:
            raise EngineTimeout("It did not answer.")

    assert await Readiness(Slow([]), ManualClock(), ttl_s=2).reason() == "It did not answer."
