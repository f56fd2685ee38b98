"""What only the memory engine does; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.limits import IDEMPOTENCY_MEMORY_MS
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft


async def test_keys_whose_time_is_over_do_not_pile_up(clock: ManualClock) -> None:
    backend = MemoryBackend(clock)
    await backend.open()
    for number in range(10):
        await backend.begin_turn_once("t", keyed(draft(), key=f"old{number}"), claim_ttl_ms=10)
    clock.advance(IDEMPOTENCY_MEMORY_MS / 1000)
    for number in range(5):
        await backend.begin_turn_once("t", keyed(draft(), key=f"new{number}"), claim_ttl_ms=10)
    assert {key for _tenant, key in backend._key_uses} == {f"new{number}" for number in range(5)}
