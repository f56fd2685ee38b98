"""Spending as its callers see it."""

from __future__ import annotations

from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rules import check_tenant
from antiphon_store.spending import rules


class SpendingOperations:
    """The part of StoreService that implements `antiphon_core.ports.spending.Spending`."""

    _backend: StoreEngine

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        check_tenant(tenant)
        rules.check_spend(spend)
        return await self._backend.spend(tenant, spend)
