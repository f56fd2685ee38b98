"""What only the memory engine does; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.conversations import array, new_id


async def test_a_deleted_conversation_leaves_nothing_behind(clock: ManualClock) -> None:
    backend = MemoryBackend(clock)
    await backend.open()
    store, chosen = StoreService(backend), new_id()
    await store.create_conversation("t", conversation_id=chosen, items=array("a"))
    await store.add_conversation_items("t", chosen, array("b"))
    await store.delete_conversation_item("t", chosen, "a")
    assert len(backend._nodes) == 2
    await store.delete_conversation("t", chosen)
    assert not backend._nodes
    assert not backend._heads
    assert not backend._removed_items
    assert not backend._conversations
