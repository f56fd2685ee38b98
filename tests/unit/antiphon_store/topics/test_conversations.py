"""Decisions of the service about conversations; that conversations work is tested by
tests/contract/store/test_suites.py."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ConversationNotFound, InvalidRequest, ItemNotFound
from antiphon_core.ids import SequentialIds
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.conversations import array, names_in, new_id
from tests.support.rows import SpiedRows


async def test_ids_come_from_the_source_that_was_given(rows: SpiedRows) -> None:
    made = await StoreService(rows, ids=SequentialIds()).create_conversation("t")
    assert made.id == f"conv_{1:016x}{2:032x}"


async def test_without_a_policy_conversations_live_for_ever(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=1))
    made = await store.create_conversation("t")
    clock.advance(10**9)
    assert await store.get_conversation("t", made.id) == made


async def test_the_longest_lifetime_is_a_setting(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=1, max_ttl_s=60))
    made = await store.create_conversation("t")
    clock.advance(60)
    with pytest.raises(ConversationNotFound):
        await store.get_conversation("t", made.id)
    with pytest.raises(InvalidRequest) as caught:
        await store.create_conversation("t", ttl_ms=60_001)
    assert caught.value.field == "ttl_ms"


async def test_only_an_item_of_the_context_is_taken_out(store: StoreService) -> None:
    conversation_id = new_id()
    await store.create_conversation("t", conversation_id=conversation_id, items=array("a", "b"))
    for _ in range(2):
        await store.delete_conversation_item("t", conversation_id, "a")
    assert names_in((await store.list_conversation_items("t", conversation_id)).items) == ["b"]
    with pytest.raises(ItemNotFound):
        await store.delete_conversation_item("t", conversation_id, "z")
