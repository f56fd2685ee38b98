"""Quotas of tenants: buckets and stream slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.arguments import checked
from antiphon_store.decisions import quotas
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.topics.topic import Topic

TOGETHER = Limits(together=1000, together_bytes=0, runs=1)


class QuotaOperations(Topic):
    """Spends that arrive while a program runs go together in the next one. Nothing of it need be durable, as it is
    worth a minute."""

    @checked
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        joint = self._spends.get(tenant)
        if joint is None:
            joint = self._spends[tenant] = JointCalls(partial(self._spend_together, tenant), TOGETHER)
        try:
            return await joint.run(spend)
        finally:
            if joint.is_idle:
                self._spends.pop(tenant, None)

    async def _spend_together(self, tenant: str, spends: Sequence[Spend]) -> Sequence[Spent | Exception]:
        return await self._trees.run(quotas.partition_of(tenant), partial(quotas.spend, spends=spends))
