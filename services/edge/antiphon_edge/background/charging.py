"""Charges the tokens of background responses to the token quotas of their tenants, in the store.

A worker does not know the limits, so it draws on the buckets that edges created. The tokens of a tenant without a
bucket are not counted.
"""

from __future__ import annotations

from antiphon_core.ports.quotas import Draw, QuotaRequest, Quotas
from antiphon_edge.quotas.rate_limits import TOKENS
from antiphon_edge.turns.cleanup import Cleanup


class StoreCharges:
    """Charges token quotas in tasks of its own, so that a turn does not wait for the store."""

    def __init__(self, store: Quotas) -> None:
        self._store = store
        self._cleanup = Cleanup()

    def charge(self, tenant: str, tokens: int) -> None:
        if tokens:
            request = QuotaRequest([Draw(TOKENS, tokens)])
            self._cleanup.schedule(
                self._store.take_quota(tenant, request), f"{tokens} tokens of {tenant} were not counted"
            )

    async def settle(self) -> None:
        """Waits until all charges are done."""
        await self._cleanup.settle()
