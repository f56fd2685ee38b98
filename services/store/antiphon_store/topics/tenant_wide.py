"""Prompts and quotas (buckets and stream slots): a tenant has them apart from all trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.prompts import Prompt, PromptStore
from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.arguments import checked
from antiphon_store.decisions import prompts, quotas
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.topics.topic import Topic, one_step

TOGETHER = Limits(together=1000, together_bytes=0, runs=1)


class TenantWideOperations(Topic):
    """The operations of `PromptStore` and `Spending` of `antiphon_core.ports`."""

    put_prompt = one_step(PromptStore.put_prompt, prompts.put)
    get_prompt = one_step(PromptStore.get_prompt, prompts.get, only_reads=True)
    delete_prompt = one_step(PromptStore.delete_prompt, prompts.delete)

    @checked
    async def list_prompts(self, tenant: str) -> Sequence[Prompt]:
        return await self._trees.run(prompts.partition_of(tenant), prompts.list_all, only_reads=True)

    @checked
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """Spends that arrive while a program runs go together in the next one. Nothing of it need be durable, as it is
        worth a minute."""
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
