"""The service's own part in retention. `antiphon_store.testing.sweeping` tests the behaviour of sweeping."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.ports.retention import Sweeping
from antiphon_store.service import StoreService
from tests.support.stores import MemoryStore


class Steps(MemoryStore):
    """Reclaims at most three at a time, of seven."""

    left = 7

    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        records = min(limit, 3, self.left)
        self.left -= records
        return Sweeping(records, 10 * records, has_more=self.left > 0)


async def test_it_goes_on_until_the_limit_or_the_end(clock: ManualClock) -> None:
    store = StoreService(Steps(clock))
    assert await store.sweep("t", limit=5) == Sweeping(5, 50, has_more=True)
    assert await store.sweep("t", limit=5) == Sweeping(2, 20, has_more=False)
