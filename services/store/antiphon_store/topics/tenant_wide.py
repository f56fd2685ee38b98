"""Operations on prompts and quotas (buckets and stream slots), which belong to a tenant and to no tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.prompts import PromptStore
from antiphon_core.ports.spending import Spend, Spending, Spent
from antiphon_store.arguments import implements
from antiphon_store.decisions import prompts, quotas
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.topics.topic import Topic, one_step

TOGETHER = Limits(together=1000, together_bytes=0, runs=1)


class TenantWideOperations(Topic):
    """The operations of `PromptStore` and `Spending` of `antiphon_core.ports`."""

    put_prompt = one_step(PromptStore.put_prompt, prompts.put)
    get_prompt = one_step(PromptStore.get_prompt, prompts.get, only_reads=True)
    list_prompts = one_step(PromptStore.list_prompts, prompts.list_all, only_reads=True)
    delete_prompt = one_step(PromptStore.delete_prompt, prompts.delete)

    @implements(Spending.spend)
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """Spends that arrive while a program runs are joined in the next one. Quotas are not durable: losing them
        matters for a minute at most."""
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
