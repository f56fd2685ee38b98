"""That conversations are kept by the file; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

from pathlib import Path

from antiphon_core.clock import ManualClock
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.conversations import array, new_id


async def test_a_conversation_survives_a_restart(path: Path, clock: ManualClock) -> None:
    chosen = new_id()
    for expected in (array("b"), array("b", "c")):
        backend = SqliteBackend(path, clock=clock)
        await backend.open()
        store = StoreService(backend)
        await store.create_conversation("t", conversation_id=chosen, items=array("a", "b"))
        await store.delete_conversation_item("t", chosen, "a")
        assert await backend.conversation_items("t", chosen) == expected
        await store.add_conversation_items("t", chosen, array("c"))
        await backend.close()
