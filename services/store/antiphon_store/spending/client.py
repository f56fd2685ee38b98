"""Spending from afar; see `antiphon_store.client`."""

from __future__ import annotations

from antiphon_core.ports.spending import Spend, Spent
from antiphon_core.rpc.client import RpcClient
from antiphon_protos.antiphon.store import v1
from antiphon_store.rules import check_tenant
from antiphon_store.spending import rules, wire


class SpendingCalls:
    """The part of StoreClient that implements `antiphon_core.ports.spending.Spending`."""

    _rpc: RpcClient

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        check_tenant(tenant)
        rules.check_spend(spend)
        answer: v1.SpendResponse = await self._rpc.call("Spend", wire.to_spend(spend), tenant=tenant)
        return wire.from_spent(answer)
