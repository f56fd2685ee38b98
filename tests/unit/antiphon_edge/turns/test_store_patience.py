from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_edge.turns import store_patience
from antiphon_edge.turns.store_patience import StorePatience


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


async def test_a_quick_answer_needs_no_look() -> None:
    store, asked = Store(frozen=True), call(0)
    await StorePatience(store).while_it_lives(asked)
    assert (asked.result(), store.asked) == ("answer", 0)


async def test_a_slow_store_is_waited_for() -> None:
    store, asked = Store(), call(0.2)
    await StorePatience(store).while_it_lives(asked)
    assert asked.result() == "answer"
    assert store.asked > 1


async def test_an_error_is_the_calls_own() -> None:
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


async def test_a_store_that_answers_others_is_alive() -> None:
    store = Store(frozen=True)
    patience = StorePatience(store)
    slow = asyncio.create_task(patience.while_it_lives(call(0.2)))
    while not slow.done():
        await patience.while_it_lives(call(0))
        await asyncio.sleep(0.001)
    assert slow.exception() is None
