from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc.hedging import HEDGES, hedged
from tests.support.waiting import until


class Replicas:
    """Replicas that never answer the first `frozen` calls."""

    def __init__(self, *, frozen: int, error: Exception | None = None) -> None:
        self.frozen = frozen
        self.error = error
        self.calls = 0
        self.cancelled = 0

    async def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        try:
            if number <= self.frozen:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return number


async def test_a_call_that_is_answered_is_made_once() -> None:
    replicas = Replicas(frozen=0)
    assert (await hedged(replicas), replicas.calls) == (1, 1)


async def test_an_unanswered_call_is_hedged_and_then_cancelled() -> None:
    replicas = Replicas(frozen=1)
    assert await hedged(replicas, after_s=0.01) in (2, 3)
    await asyncio.sleep(0)
    assert (replicas.calls, replicas.cancelled) == (1 + HEDGES, 1)


async def test_an_error_of_a_hedge_is_raised_as_its_answer() -> None:
    replicas = Replicas(frozen=1, error=InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        await hedged(replicas, after_s=0.01)


async def test_cancelling_a_hedged_call_cancels_all_its_attempts() -> None:
    replicas = Replicas(frozen=9)
    asking = asyncio.create_task(hedged(replicas, after_s=0.01))
    await until(lambda: replicas.calls == 1 + HEDGES, "all attempts began")
    asking.cancel()
    await asyncio.wait([asking])
    await asyncio.sleep(0)
    assert replicas.cancelled == replicas.calls == 1 + HEDGES
