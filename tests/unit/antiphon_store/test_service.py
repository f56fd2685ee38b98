"""The service's own part, beyond its backend. `tests/contract/store` tests the behaviour of a store."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest, StoreUnavailable
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.ports.store import TurnCommit
from antiphon_store.opening import open_backend
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft, new_session_id, turn_in

TENANT = "t"
SESSION = new_session_id()


async def service(clock: ManualClock, settings: StoreSettings) -> StoreService:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    return StoreService(backend, settings)


async def test_the_default_lifetime_is_a_setting(clock: ManualClock) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=60))
    stamp = await store.put(TENANT, draft())
    assert stamp.expires_at_ms == clock.now_ms() + 60_000
    stamp = await store.commit_turn(TENANT, TurnCommit(draft()))
    assert stamp.expires_at_ms == clock.now_ms() + 60_000


async def test_without_a_default_a_response_lives_for_ever(clock: ManualClock) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=None))
    record = draft()
    assert (await store.put(TENANT, record)).expires_at_ms is None
    clock.advance(100 * 366 * 24 * 3600)
    assert (await store.get(TENANT, record.id)).id == record.id


@pytest.mark.parametrize(("max_ttl_s", "expected_ms"), [(None, None), (90, 90_000)])
async def test_what_was_said_in_a_conversation_stays(
    clock: ManualClock, max_ttl_s: int | None, expected_ms: int | None
) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=60, max_ttl_s=max_ttl_s))
    conversation_id = new_conversation_id(RandomIds())
    start = await store.begin_turn(TENANT, turn_in(conversation_id))
    assert start.lease is not None
    record = draft(session_id=conversation_id, tag=conversation_id)
    stamp = await store.commit_turn(TENANT, TurnCommit(record, start.lease.fence))
    assert stamp.expires_at_ms == (None if expected_ms is None else clock.now_ms() + expected_ms)
    stamp = await store.put(TENANT, draft(session_id=conversation_id, tag=conversation_id), ttl_ms=1000)
    assert stamp.expires_at_ms == clock.now_ms() + 1000


async def test_the_longest_lifetime_is_a_setting(clock: ManualClock) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=30, max_ttl_s=60))
    await store.put(TENANT, draft(), ttl_ms=60_000)
    with pytest.raises(InvalidRequest) as caught:
        await store.put(TENANT, draft(), ttl_ms=60_001)
    assert caught.value.field == "ttl_ms"


@pytest.mark.parametrize("way", ["commit", "abort", "release"])
async def test_whoever_waits_is_woken_by_the_end_of_a_turn(clock: ManualClock, way: str) -> None:
    store = await service(clock, StoreSettings(lease_poll_ms=3_600_000))
    start = await store.begin_turn(TENANT, turn_in(SESSION))
    assert start.lease is not None
    waiting = asyncio.create_task(store.begin_turn(TENANT, turn_in(SESSION, holder="other", wait_ms=60_000)))
    await asyncio.sleep(0.01)
    if way == "commit":
        await store.commit_turn(TENANT, TurnCommit(draft(tag=SESSION, session_id=SESSION), start.lease.fence))
    elif way == "abort":
        await store.abort_turn(TENANT, start.lease.fence)
    else:
        await store.release_session(TENANT, start.lease.fence)
    second = await asyncio.wait_for(waiting, 30)
    assert second.lease is not None
    assert second.lease.holder == "other"


async def test_it_is_ready_when_its_backend_is(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    store = StoreService(backend)
    with pytest.raises(StoreUnavailable):
        await store.ready()
    await backend.open()
    await store.ready()


async def test_how_long_a_key_is_claimed_is_a_setting(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    store = StoreService(backend, StoreSettings(turn_claim_s=5))
    first = draft()
    await store.begin_turn("t", keyed(first))
    clock.advance(4.999)
    assert (await store.begin_turn("t", keyed(draft()))).running_response_id == first.id
    clock.advance(0.001)
    assert (await store.begin_turn("t", keyed(draft()))).running_response_id is None
