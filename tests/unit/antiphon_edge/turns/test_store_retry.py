from __future__ import annotations

import asyncio

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_edge.turns import store_patience
from antiphon_edge.turns.store_retry import StorePatience

LONG_S = 30.0


class Store:
    """A store that is ready, frozen, or says that it is not ready."""

    def __init__(self, *, frozen: bool = False, error: Exception | None = None) -> None:
        self.frozen = frozen
        self.error = error
        self.asked = 0

    async def ready(self) -> None:
        self.asked += 1
        if self.frozen:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_patience, "SLOW_S", 0.02)
    monkeypatch.setattr(store_patience, "READY_S", 0.02)


def call(seconds: float, error: Exception | None = None) -> asyncio.Task[str]:
    async def answer() -> str:
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return "answer"

    return asyncio.create_task(answer())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """What tells it how long ago the store was seen, while a look may take as long as it takes."""
    clock = ManualClock()
    monkeypatch.setattr(store_patience, "_now", clock.monotonic)
    monkeypatch.setattr(store_patience, "READY_S", LONG_S)
    return clock


async def test_a_quick_answer_needs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_patience, "SLOW_S", LONG_S)
    store, asked = Store(frozen=True), call(0)
    await StorePatience(store).while_it_lives(asked)
    assert (asked.result(), store.asked) == ("answer", 0)


class Ageing(StorePatience):
    """Each sign of life is soon long ago."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store)
        self._clock = clock

    async def _require_sign_of_life(self) -> None:
        await super()._require_sign_of_life()
        self._clock.advance(2 * LONG_S)


async def test_a_slow_store_is_waited_for(clock: ManualClock) -> None:
    store = Store()

    async def answer() -> str:
        while store.asked < 3:
            await asyncio.sleep(0.001)
        return "answer"

    asked = asyncio.create_task(answer())
    async with asyncio.timeout(LONG_S):
        await Ageing(store, clock).while_it_lives(asked)
    assert asked.result() == "answer"


async def test_an_error_is_the_calls_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_patience, "SLOW_S", LONG_S)
    asked = call(0, ValueError("mine"))
    await StorePatience(Store()).while_it_lives(asked)
    assert isinstance(asked.exception(), ValueError)


@pytest.mark.parametrize("store", [Store(frozen=True), Store(error=StoreUnavailable("not ready"))])
async def test_a_store_without_a_sign_of_life_is_given_up(store: Store) -> None:
    asked = call(60)
    with pytest.raises(StoreUnavailable):
        await StorePatience(store).while_it_lives(asked)
    assert not asked.done()
    asked.cancel()


async def test_many_callers_take_one_look() -> None:
    store = Store(frozen=True)
    patience, asked = StorePatience(store), [call(60) for _ in range(50)]
    waited = await asyncio.gather(*map(patience.while_it_lives, asked), return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in waited)
    assert store.asked == 1
    for each in asked:
        each.cancel()


async def test_a_store_that_answers_others_is_alive(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_patience, "READY_S", 5.0)
    store, go = Store(frozen=True), asyncio.Event()
    patience = StorePatience(store)
    with monkeypatch.context() as at_first:
        at_first.setattr(store_patience, "SLOW_S", LONG_S)
        await patience.while_it_lives(call(0))
    slow = asyncio.create_task(patience.while_it_lives(asyncio.ensure_future(go.wait())))
    for _ in range(20):
        clock.advance(3)
        await patience.while_it_lives(call(0))
        await asyncio.sleep(0.01)
    go.set()
    await slow
    assert store.asked == 0
