from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.ports.full_store import FullStore
from antiphon_edge.turns import store_retry
from antiphon_edge.turns.fail_fast_store import FAIL_FAST_CALLS, fail_fast
from antiphon_edge.turns.store_retry import StoreWatch

SLOW_S = 0.02


class Store:
    """A store that answers when `go` is set, and is ready while `is_there`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.is_there = True
        self.cancelled = 0
        self.error: Exception | None = None

    async def ready(self) -> None:
        if not self.is_there:
            raise StoreUnavailable("frozen")

    async def get(self, tenant: str, response_id: str) -> str:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return f"{tenant} {response_id}"

    begin_turn = get


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(store_retry, "SLOW_S", SLOW_S)
    monkeypatch.setattr(store_retry, "READY_S", SLOW_S)
    return Store()


def asked(store: Store) -> Any:
    typed: Any = store
    return fail_fast(typed, StoreWatch(typed))


def test_every_fail_fast_call_is_a_method_of_the_store() -> None:
    assert [name for name in FAIL_FAST_CALLS if not hasattr(FullStore, name)] == []


def test_every_list_method_of_the_store_fails_fast() -> None:
    assert {name for name in dir(FullStore) if name.startswith("list_")} <= FAIL_FAST_CALLS


async def test_call_to_a_frozen_store_fails_fast_and_is_cancelled(store: Store) -> None:
    store.is_there = False
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(asked(store).get("t", "r"), 5)
    await asyncio.sleep(0)
    assert store.cancelled == 1


async def test_slow_store_is_waited_for(store: Store) -> None:
    waiting = asyncio.create_task(asked(store).get("t", response_id="r"))
    await asyncio.sleep(10 * SLOW_S)
    store.go.set()
    assert await waiting == "t r"


async def test_error_of_the_store_is_raised_unchanged(store: Store) -> None:
    store.go.set()
    store.error = ResponseNotFound.of("r")
    with pytest.raises(ResponseNotFound):
        await asked(store).get("t", "r")


async def test_a_missed_deadline_says_that_the_store_is_unavailable(store: Store) -> None:
    store.go.set()
    store.error = Timeout("Deadline Exceeded")
    with pytest.raises(StoreUnavailable):
        await asked(store).get("t", "r")


async def test_call_that_does_not_fail_fast_waits_for_a_frozen_store(store: Store) -> None:
    store.is_there = False
    waiting = asyncio.create_task(asked(store).begin_turn("t", "r"))
    await asyncio.sleep(10 * SLOW_S)
    store.go.set()
    assert await waiting == "t r"
