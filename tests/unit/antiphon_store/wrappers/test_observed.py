from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound
from antiphon_store.backends.base import Write
from antiphon_store.backends.engine import StoreEngine
from antiphon_store.backends.registry import open_backend
from antiphon_store.testing.subject import draft
from antiphon_store.wrappers.faulty import Fault, FaultyBackend, When
from antiphon_store.wrappers.observed import ObservedBackend
from tests.support.stores import MemoryStore


class Log:
    def __init__(self) -> None:
        self.seen: list[tuple[str, float, BaseException | None]] = []

    def __call__(self, atom: str, seconds: float, error: BaseException | None) -> None:
        self.seen.append((atom, seconds, error))


class Slow(MemoryStore):
    """Takes a quarter of a second by the clock that it shares with its observer."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.hand = clock

    async def put(self, tenant: str, write: Write) -> Any:
        self.hand.advance(0.25)
        return await self._inner.put(tenant, write)


async def test_each_call_is_told_once_with_its_duration() -> None:
    clock, log = ManualClock(), Log()
    backend = ObservedBackend(Slow(clock), log, clock=clock)
    await backend.open()
    await backend.put("t", Write(draft()))
    ((atom, seconds, error),) = log.seen
    assert (atom, error) == ("put", None)
    assert seconds == pytest.approx(0.25)


async def test_an_error_is_told_and_raised() -> None:
    log = Log()
    backend = ObservedBackend(open_backend("memory://"), log)
    await backend.open()
    with pytest.raises(ResponseNotFound) as caught:
        await backend.fetch("t", draft().id)
    ((atom, seconds, error),) = log.seen
    assert (atom, error) == ("fetch", caught.value)
    assert seconds >= 0


async def test_a_caller_that_gave_up_is_told() -> None:
    log, inner = Log(), FaultyBackend(open_backend("memory://"))
    inner.plan(Fault("ready", When.BEFORE, error=None, delay_s=30))
    observed: StoreEngine = ObservedBackend(inner, log)
    task = asyncio.ensure_future(observed.ready())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(log.seen[0][2], asyncio.CancelledError)


async def test_opening_and_closing_are_not_told() -> None:
    log = Log()
    backend = ObservedBackend(open_backend("memory://"), log)
    await backend.open()
    await backend.close()
    assert log.seen == []
