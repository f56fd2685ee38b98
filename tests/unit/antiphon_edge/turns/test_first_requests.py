from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.store import TurnRequest
from antiphon_edge.turns import first_requests
from antiphon_edge.turns.begun import Repeated
from antiphon_edge.turns.first_requests import FirstRequest
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService

TENANT = "t"


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StoreService]:
    monkeypatch.setattr(first_requests, "PATIENCE_S", 0.5)
    backend = MemoryBackend()
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def running(store: StoreService, response_id: str) -> str | None:
    """Which response the key runs, when one with this id asks for it."""
    asked = TurnRequest(idempotency_key="k", fingerprint=b"f" * 32, response_id=response_id)
    return (await store.begin_turn(TENANT, asked)).running_response_id


def response_id() -> str:
    return new_response_id(RandomIds())


async def test_it_keeps_its_key_for_a_while_and_no_longer(store: StoreService) -> None:
    dead, next_one = response_id(), response_id()
    await running(store, dead)
    first, repeated = FirstRequest(store), Repeated(TENANT, dead, None, "k")
    for _ in range(2):
        await first.came_to_nothing(repeated)
        assert await running(store, next_one) == dead
    await asyncio.sleep(0.51)
    await first.came_to_nothing(repeated)
    assert await running(store, next_one) is None


async def test_each_first_one_has_that_long(store: StoreService) -> None:
    first = FirstRequest(store)
    await first.came_to_nothing(Repeated(TENANT, response_id(), None, "k"))
    later = response_id()
    await running(store, later)
    await asyncio.sleep(0.51)
    await first.came_to_nothing(Repeated(TENANT, later, None, "k"))
    assert await running(store, response_id()) == later
