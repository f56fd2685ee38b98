from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_store.opening import open_backend
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft


async def test_a_store_is_opened_by_its_url(clock: ManualClock) -> None:
    engine = open_backend("memory://", clock=clock)
    await engine.open()
    assert engine.durability is Durability.MEMORY
    stamp = await StoreService(engine).put("t", draft())
    assert stamp.created_at_ms == clock.now_ms()
