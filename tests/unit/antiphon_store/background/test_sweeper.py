"""Periodic sweeps of a store: of every tenant, to the end, and also after errors."""

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


class SweptStore:
    """A store with a number of sweeps left for each tenant. `asked` lists the swept tenants in order."""

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


def sweeper_of(swept: SweptStore, *, every_s: int | None) -> Sweeper:
    store: Any = swept
    return Sweeper(store, every_s=every_s)


async def until(condition: Callable[[], bool], step: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await step()


async def test_a_sweep_of_all_tenants_continues_until_nothing_is_left() -> None:
    swept = SweptStore({"a": 1, "b": 3})
    assert await sweeper_of(swept, every_s=None).sweep_all() == 8
    assert swept.asked == ["a", "b", "b", "b"]


async def test_a_sweep_that_reclaims_nothing_ends_its_round() -> None:
    class Stuck(SweptStore):
        async def sweep(self, tenant: str, *, limit: int = 0) -> Sweeping:
            self.asked.append(tenant)
            return Sweeping(0, 0, has_more=True)

    swept = Stuck({"a": 1})
    assert await sweeper_of(swept, every_s=None).sweep_all() == 0
    assert swept.asked == ["a"]


@pytest.mark.parametrize("error", [StoreUnavailable("The database is away."), ZeroDivisionError("a mistake")])
async def test_sweeping_continues_after_a_failed_round(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    pause = asyncio.sleep
    pauses: list[float] = []

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)
        await pause(0)

    swept = SweptStore({"a": 100}, error)
    sweeper = sweeper_of(swept, every_s=60)
    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr("antiphon_store.background.sweeper.asyncio.sleep", no_pause)
        sweeper.start()
        await until(lambda: len(pauses) > 2, lambda: pause(0))
        await sweeper.stop()
    assert len(swept.asked) > 1
    assert all(48 <= seconds <= 72 for seconds in pauses)
    (record,) = caplog.records
    assert ("ended early" if isinstance(error, StoreUnavailable) else "failed") in record.getMessage()


async def test_a_sweeper_without_an_interval_does_not_start() -> None:
    swept = SweptStore({"a": 1})
    sweeper = sweeper_of(swept, every_s=None)
    sweeper.start()
    await asyncio.sleep(0)
    await sweeper.stop()
    assert swept.asked == []


async def test_a_sweep_reclaims_expired_responses_of_every_tenant() -> None:
    clock = ManualClock()
    store = StoreService(MemoryRows(clock))
    await store.open()
    for tenant in ("a", "b"):
        await store.put(tenant, draft(), ttl_ms=500)
    clock.advance(1)
    sweeper = Sweeper(store, every_s=None)
    assert await sweeper.sweep_all() == 2
    assert await sweeper.sweep_all() == 0
