"""Jobs from afar; see `antiphon_store.client`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core import limits
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.store import Fence
from antiphon_core.rpc.client import RpcClient
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules as store_rules
from antiphon_store.jobs import rules, wire
from antiphon_store.wire import to_fence


class JobCalls:
    """The part of StoreClient that implements `antiphon_core.ports.jobs.Jobs`."""

    _rpc: RpcClient

    async def enqueue_job(self, tenant: str, draft: JobDraft) -> None:
        store_rules.check_tenant(tenant)
        rules.check_draft(draft)
        await self._ask("EnqueueJob", tenant, wire.to_draft(draft))

    async def claim_job(
        self,
        tenant: str,
        queues: Sequence[str],
        *,
        holder: str,
        lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Job | None:
        store_rules.check_tenant(tenant)
        rules.check_queues(queues)
        store_rules.check_holder(holder)
        store_rules.check_lease_ttl(lease_ttl_ms, "lease_ttl_ms")
        store_rules.check_wait(wait_ms)
        request = v1.ClaimJobRequest(queues=list(queues), holder=holder, lease_ttl_ms=lease_ttl_ms, wait_ms=wait_ms)
        answer: v1.ClaimJobResponse = await self._ask("ClaimJob", tenant, request)
        return wire.from_job(answer.job) if answer.job is not None else None

    async def heartbeat_job(
        self, tenant: str, fence: Fence, *, lease_ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT
    ) -> JobPulse:
        store_rules.check_tenant(tenant)
        rules.check_job_fence(fence)
        store_rules.check_lease_ttl(lease_ttl_ms, "lease_ttl_ms")
        request = v1.HeartbeatJobRequest(id=fence.session_id, fence=to_fence(fence), lease_ttl_ms=lease_ttl_ms)
        answer: v1.HeartbeatJobResponse = await self._ask("HeartbeatJob", tenant, request)
        return JobPulse(answer.cancel_requested, answer.lease_expires_at_ms)

    async def settle_job(self, tenant: str, fence: Fence, outcome: JobOutcome, *, reason: str = "") -> None:
        store_rules.check_tenant(tenant)
        rules.check_job_fence(fence)
        rules.check_reason(reason)
        request = v1.SettleJobRequest(
            id=fence.session_id, fence=to_fence(fence), outcome=wire.to_outcome(outcome), reason=reason
        )
        await self._ask("SettleJob", tenant, request)

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        store_rules.check_tenant(tenant)
        store_rules.check_response_id(job_id, "id")
        answer: v1.CancelJobResponse = await self._ask("CancelJob", tenant, v1.CancelJobRequest(id=job_id))
        return answer.cancel_requested

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        store_rules.check_tenant(tenant)
        store_rules.check_response_id(job_id, "id")
        answer: v1.DescribeJobResponse = await self._ask("DescribeJob", tenant, v1.DescribeJobRequest(id=job_id))
        return wire.from_description(answer)

    async def _ask(self, name: str, tenant: str, request: Any) -> Any:
        return await self._rpc.call(name, request, tenant=tenant)
