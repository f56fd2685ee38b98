"""Token quotas of background responses, counted in the store.

A worker knows no limits: it draws on the buckets that edges described. Where no edge described one, nothing is counted.
"""

from __future__ import annotations

from antiphon_core.ports.spending import Draw, Spend, Spending
from antiphon_edge.quotas.rate_limits import TOKENS
from antiphon_edge.turns.cleanup import Cleanup


class StoreCharges:
    """Charges tenants, without anybody waiting for it."""

    def __init__(self, store: Spending) -> None:
        self._store = store
        self._cleanup = Cleanup()

    def charge(self, tenant: str, tokens: int) -> None:
        if tokens:
            spend = Spend([Draw(TOKENS, tokens)])
            self._cleanup.schedule(self._store.spend(tenant, spend), f"{tokens} tokens of {tenant} were not counted")

    async def settle(self) -> None:
        """Returns when nothing is under way."""
        await self._cleanup.settle()
