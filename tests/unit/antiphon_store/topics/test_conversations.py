"""Decisions of the service about conversations. tests/contract/store/test_suites.py tests conversations."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ConversationNotFound, InvalidRequest, ItemNotFound
from antiphon_core.ids import SequentialIds
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.conversations import array, names_in, new_id
from tests.support.rows import SpiedRows


async def test_a_conversation_gets_its_id_from_the_given_source(rows: SpiedRows) -> None:
    made = await StoreService(rows, ids=SequentialIds()).create_conversation("t")
    assert made.id == f"conv_{1:016x}{2:032x}"


async def test_conversations_do_not_expire_by_the_default_ttl(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=1))
    made = await store.create_conversation("t")
    clock.advance(10**9)
    assert await store.get_conversation("t", made.id) == made


async def test_the_max_ttl_setting_limits_lifetimes(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=1, max_ttl_s=60))
    made = await store.create_conversation("t")
    clock.advance(60)
    with pytest.raises(ConversationNotFound):
        await store.get_conversation("t", made.id)
    with pytest.raises(InvalidRequest) as caught:
        await store.create_conversation("t", ttl_ms=60_001)
    assert caught.value.field == "ttl_ms"


async def test_removing_an_item_is_idempotent_and_an_unknown_item_is_not_found(store: StoreService) -> None:
    conversation_id = new_id()
    await store.create_conversation("t", conversation_id=conversation_id, items=array("a", "b"))
    for _ in range(2):
        await store.delete_conversation_item("t", conversation_id, "a")
    assert names_in((await store.list_conversation_items("t", conversation_id)).items) == ["b"]
    with pytest.raises(ItemNotFound):
        await store.delete_conversation_item("t", conversation_id, "z")
