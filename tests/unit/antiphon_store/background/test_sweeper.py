"""The rounds that a store makes by itself: everybody, to the end, again and again, whatever breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.retention import Sweeping
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.background.sweeper import Sweeper
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft


class Plays:
    """A store with so many steps of work for each tenant; `asked` are the tenants that were swept, in order."""

    def __init__(self, steps: dict[str, int], error: Exception | None = None) -> None:
        self.steps = steps
        self.error = error
        self.asked: list[str] = []

    async def tenants(self) -> Sequence[str]:
        return list(self.steps)

    async def sweep(self, tenant: str, *, limit: int = 0) -> Sweeping:
        assert limit > 0
        self.asked.append(tenant)
        if self.error is not None and len(self.asked) == 1:
            raise self.error
        self.steps[tenant] -= 1
        return Sweeping(2, 20, has_more=self.steps[tenant] > 0)


def sweeper_of(plays: Plays, *, every_s: int | None) -> Sweeper:
    store: Any = plays
    return Sweeper(store, every_s=every_s)


async def until(condition: Callable[[], bool], step: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await step()


async def test_a_round_sweeps_everybody_to_the_end() -> None:
    plays = Plays({"a": 1, "b": 3})
    assert await sweeper_of(plays, every_s=None).sweep_all() == 8
    assert plays.asked == ["a", "b", "b", "b"]


async def test_a_round_ends_when_nothing_more_goes() -> None:
    class Stuck(Plays):
        async def sweep(self, tenant: str, *, limit: int = 0) -> Sweeping:
            self.asked.append(tenant)
            return Sweeping(0, 0, has_more=True)

    plays = Stuck({"a": 1})
    assert await sweeper_of(plays, every_s=None).sweep_all() == 0
    assert plays.asked == ["a"]


@pytest.mark.parametrize("error", [StoreUnavailable("The database is away."), ZeroDivisionError("a mistake")])
async def test_rounds_go_on_after_one_that_broke(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    pause = asyncio.sleep
    pauses: list[float] = []

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)
        await pause(0)

    plays = Plays({"a": 100}, error)
    sweeper = sweeper_of(plays, every_s=60)
    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr("antiphon_store.background.sweeper.asyncio.sleep", no_pause)
        sweeper.start()
        await until(lambda: len(pauses) > 2, lambda: pause(0))
        await sweeper.stop()
    assert len(plays.asked) > 1
    assert all(48 <= seconds <= 72 for seconds in pauses)
    (record,) = caplog.records
    assert ("ended early" if isinstance(error, StoreUnavailable) else "failed") in record.getMessage()


async def test_without_an_interval_it_never_begins() -> None:
    plays = Plays({"a": 1})
    sweeper = sweeper_of(plays, every_s=None)
    sweeper.start()
    await asyncio.sleep(0)
    await sweeper.stop()
    assert plays.asked == []


async def test_it_reclaims_what_expired_in_a_real_store() -> None:
    clock = ManualClock()
    store = StoreService(MemoryRows(clock))
    await store.open()
    for tenant in ("a", "b"):
        await store.put(tenant, draft(), ttl_ms=500)
    clock.advance(1)
    sweeper = Sweeper(store, every_s=None)
    assert await sweeper.sweep_all() == 2
    assert await sweeper.sweep_all() == 0
