"""Sweeping as its callers see it: up to so many, in as many atoms as the engine likes."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.retention import Sweeping
from antiphon_store import rules
from antiphon_store.engine.store_engine import StoreEngine


class RetentionOperations:
    """The part of StoreService that implements `antiphon_core.ports.retention.Retention`."""

    _backend: StoreEngine

    async def sweep(self, tenant: str, *, limit: int = limits.SWEEP_ITEMS_DEFAULT) -> Sweeping:
        rules.check_tenant(tenant)
        rules.check_range(limit, 1, limits.SWEEP_ITEMS_MAX, "limit")
        swept = step = Sweeping(has_more=True)
        while step.has_more and swept.records < limit:
            step = await self._backend.sweep(tenant, limit=limit - swept.records)
            swept = Sweeping(swept.records + step.records, swept.size_bytes + step.size_bytes, step.has_more)
            if not step.records:
                break
        return swept
