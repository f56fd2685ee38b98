"""Retention from afar; see `antiphon_store.client`."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.retention import Sweeping
from antiphon_core.rpc.client import RpcClient
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules


class RetentionCalls:
    """The part of StoreClient that implements `antiphon_core.ports.retention.Retention`."""

    _rpc: RpcClient

    async def sweep(self, tenant: str, *, limit: int = limits.SWEEP_ITEMS_DEFAULT) -> Sweeping:
        rules.check_tenant(tenant)
        rules.check_range(limit, 1, limits.SWEEP_ITEMS_MAX, "limit")
        answer: v1.SweepResponse = await self._rpc.call("Sweep", v1.SweepRequest(limit=limit), tenant=tenant)
        return Sweeping(answer.reclaimed_records, answer.reclaimed_bytes, answer.has_more)
