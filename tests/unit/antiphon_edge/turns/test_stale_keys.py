from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.store import TurnRequest
from antiphon_edge.turns import stale_keys
from antiphon_edge.turns.accepted_turn import RepeatedRequest
from antiphon_edge.turns.stale_keys import StaleKey
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService

TENANT = "t"
STALE_AFTER_S = 10.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Replaces the clock of the event loop that `stale_keys` reads."""
    clock = ManualClock()
    loop = SimpleNamespace(time=clock.monotonic)
    monkeypatch.setattr(stale_keys, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    return clock


@pytest.fixture
async def store() -> AsyncIterator[StoreService]:
    backend = row_backend("memory://")
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def running(store: StoreService, response_id: str) -> str | None:
    """The id of the response that runs under the key, as a request with this response id gets it."""
    asked = TurnRequest(idempotency_key="k", fingerprint=b"f" * 32, response_id=response_id)
    return (await store.begin_turn(TENANT, asked)).running_response_id


def response_id() -> str:
    return new_response_id(RandomIds())


async def test_stale_key_is_released_only_after_its_time(store: StoreService, clock: ManualClock) -> None:
    dead, next_one = response_id(), response_id()
    await running(store, dead)
    first, repeated = StaleKey(store, stale_after_s=STALE_AFTER_S), RepeatedRequest(TENANT, dead, None, "k")
    for pause_s in (0, STALE_AFTER_S - 0.1):
        clock.advance(pause_s)
        await first.release_if_stale(repeated)
        assert await running(store, next_one) == dead
    clock.advance(0.1)
    await first.release_if_stale(repeated)
    assert await running(store, next_one) is None


async def test_time_until_a_key_is_stale_begins_anew_for_each_first_request(
    store: StoreService, clock: ManualClock
) -> None:
    first = StaleKey(store, stale_after_s=STALE_AFTER_S)
    await first.release_if_stale(RepeatedRequest(TENANT, response_id(), None, "k"))
    later = response_id()
    await running(store, later)
    clock.advance(STALE_AFTER_S)
    await first.release_if_stale(RepeatedRequest(TENANT, later, None, "k"))
    assert await running(store, response_id()) == later
