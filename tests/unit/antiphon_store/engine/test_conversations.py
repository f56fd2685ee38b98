"""Taking items out of a conversation."""

from __future__ import annotations

import pytest

from antiphon_core.errors import ItemNotFound
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.values import Addition, Founding

T = "t"


async def test_only_an_item_of_the_context_is_taken_out(engine: StoreEngine) -> None:
    conversation_id = new_id()
    first = Addition(array("a", "b"), "d", "s")
    await engine.create_conversation(T, Founding(conversation_id, b"{}", "o", "i", first))
    for _ in range(2):
        await engine.remove_item(T, conversation_id, "a")
    assert names_in(await engine.conversation_items(T, conversation_id)) == ["b"]
    with pytest.raises(ItemNotFound):
        await engine.remove_item(T, conversation_id, "z")
