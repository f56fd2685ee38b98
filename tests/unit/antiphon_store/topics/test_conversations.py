"""Decisions of the service about conversations; that conversations work is tested by
tests/contract/store/test_suites.py."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ConversationNotFound, InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_store.opening import open_backend
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings


async def service(clock: ManualClock, settings: StoreSettings | None = None) -> StoreService:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    return StoreService(backend, settings, ids=SequentialIds())


async def test_ids_come_from_the_source_that_was_given(clock: ManualClock) -> None:
    made = await (await service(clock)).create_conversation("t")
    assert made.id == f"conv_{1:016x}{2:032x}"


async def test_without_a_policy_conversations_live_for_ever(clock: ManualClock) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=1))
    made = await store.create_conversation("t")
    clock.advance(10**9)
    assert await store.get_conversation("t", made.id) == made


async def test_the_longest_lifetime_is_a_setting(clock: ManualClock) -> None:
    store = await service(clock, StoreSettings(default_ttl_s=1, max_ttl_s=60))
    made = await store.create_conversation("t")
    clock.advance(60)
    with pytest.raises(ConversationNotFound):
        await store.get_conversation("t", made.id)
    with pytest.raises(InvalidRequest) as caught:
        await store.create_conversation("t", ttl_ms=60_001)
    assert caught.value.field == "ttl_ms"
