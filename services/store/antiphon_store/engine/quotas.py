"""Quotas of tenants: buckets and stream slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.decisions import quotas
from antiphon_store.engine.operations import Operations
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.rows.backend import RowBackend

TOGETHER = Limits(together=1000, together_bytes=0, runs=1)


class QuotaOperations(Operations):
    """Spends that arrive while a program runs go together in the next one. Nothing of it need be durable, as it is
    worth a minute."""

    def __init__(self, rows: RowBackend) -> None:
        super().__init__(rows)
        self._spends: dict[str, JointCalls[Spend, Spent]] = {}  # of tenants that spend now

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """All draws and places of a spend, or none of them, in one step with the look whether there is enough."""
        joint = self._spends.get(tenant)
        if joint is None:
            joint = self._spends[tenant] = JointCalls(partial(self._spend_together, tenant), TOGETHER)
        try:
            return await joint.run(spend)
        finally:
            if joint.is_idle:
                self._spends.pop(tenant, None)

    async def _spend_together(self, tenant: str, spends: Sequence[Spend]) -> Sequence[Spent | Exception]:
        return await self._runner.run(quotas.partition_of(tenant), partial(quotas.spend, spends=spends))
