"""Operations on prompts and quotas (buckets and stream slots), which belong to a tenant and to no tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.prompts import PromptStore
from antiphon_core.ports.quotas import QuotaAnswer, QuotaRequest, Quotas
from antiphon_store.calls import implements
from antiphon_store.decisions import prompts, quotas
from antiphon_store.joint_calls import JointCalls, Limits
from antiphon_store.topics.topic import Topic, of_prompts, one_step

TOGETHER = Limits(together=1000, together_bytes=0, runs=1)


class TenantWideOperations(Topic):
    """The operations of `PromptStore` and `Quotas` of `antiphon_core.ports`."""

    put_prompt = one_step(PromptStore.put_prompt, prompts.put, of_prompts)
    get_prompt = one_step(PromptStore.get_prompt, prompts.get, of_prompts, only_reads=True)
    list_prompts = one_step(PromptStore.list_prompts, prompts.list_all, of_prompts, only_reads=True)
    delete_prompt = one_step(PromptStore.delete_prompt, prompts.delete, of_prompts)

    @implements(Quotas.take_quota)
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        """Requests that arrive while a program runs are joined in the next one. Quotas are not durable: losing them
        matters for a minute at most."""
        joint = self._joint_requests.get(tenant)
        if joint is None:
            joint = self._joint_requests[tenant] = JointCalls(partial(self._take_together, tenant), TOGETHER)
        try:
            return await joint.run(quota_request)
        finally:
            if joint.is_idle:
                self._joint_requests.pop(tenant, None)

    async def _take_together(self, tenant: str, requests: Sequence[QuotaRequest]) -> Sequence[QuotaAnswer | Exception]:
        return await self._trees.run(quotas.partition_of(tenant), partial(quotas.take_quota, requests=requests))
