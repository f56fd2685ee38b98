"""What only the memory backend can show of lineage: that nothing dead stays. Its behaviour: tests/contract/store."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import NO_PRECONDITION
from antiphon_store.backends.base import Write
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.testing.subject import draft


async def test_what_a_fork_keeps_goes_when_it_moves_on(clock: ManualClock) -> None:
    backend, head = MemoryBackend(clock), draft(session_id="s")
    await backend.open()
    await backend.put("t", Write(head, item_ids=("a",)))
    await backend.fork("t", ForkSource(None, head.id), "s")
    await backend.remove("t", head.id, NO_PRECONDITION)
    assert backend._nodes
    lease = await backend.acquire_lease("t", "s", holder="a", ttl_ms=1000)
    other = draft(session_id="s")
    await backend.commit_turn("t", Write(other), lease.fence)
    assert list(backend._nodes) == [("t", other.id)]
    assert not backend._catalogue.of_item("t", "a")
    assert backend._heads == {("t", other.id): 1}
