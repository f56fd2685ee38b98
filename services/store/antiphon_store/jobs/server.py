"""gRPC to jobs, one to one; see `antiphon_store.server`."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core import limits
from antiphon_core.ports.jobs import Jobs
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store.jobs import wire


def handlers(service: Jobs) -> Mapping[str, Handler]:
    rpcs = _Rpcs(service)
    return {
        "EnqueueJob": rpcs.enqueue,
        "ClaimJob": rpcs.claim,
        "HeartbeatJob": rpcs.heartbeat,
        "SettleJob": rpcs.settle,
        "CancelJob": rpcs.cancel,
        "DescribeJob": rpcs.describe,
    }


class _Rpcs:
    def __init__(self, service: Jobs) -> None:
        self._service = service

    async def enqueue(self, request: v1.EnqueueJobRequest, call: Call) -> v1.EnqueueJobResponse:
        await self._service.enqueue_job(call.tenant, wire.from_draft(request))
        return v1.EnqueueJobResponse()

    async def claim(self, request: v1.ClaimJobRequest, call: Call) -> v1.ClaimJobResponse:
        job = await self._service.claim_job(
            call.tenant,
            request.queues,
            holder=request.holder,
            lease_ttl_ms=request.lease_ttl_ms or limits.LEASE_TTL_MS_DEFAULT,
            wait_ms=request.wait_ms,
        )
        return v1.ClaimJobResponse(job=wire.to_job(job) if job is not None else None)

    async def heartbeat(self, request: v1.HeartbeatJobRequest, call: Call) -> v1.HeartbeatJobResponse:
        fence = wire.from_job_fence(request.id, request.fence)
        lease_ttl_ms = request.lease_ttl_ms or limits.LEASE_TTL_MS_DEFAULT
        pulse = await self._service.heartbeat_job(call.tenant, fence, lease_ttl_ms=lease_ttl_ms)
        return v1.HeartbeatJobResponse(
            cancel_requested=pulse.cancel_requested, lease_expires_at_ms=pulse.lease_expires_at_ms
        )

    async def settle(self, request: v1.SettleJobRequest, call: Call) -> v1.SettleJobResponse:
        fence = wire.from_job_fence(request.id, request.fence)
        outcome = wire.from_outcome(request.outcome)
        await self._service.settle_job(call.tenant, fence, outcome, reason=request.reason)
        return v1.SettleJobResponse()

    async def cancel(self, request: v1.CancelJobRequest, call: Call) -> v1.CancelJobResponse:
        return v1.CancelJobResponse(cancel_requested=await self._service.cancel_job(call.tenant, request.id))

    async def describe(self, request: v1.DescribeJobRequest, call: Call) -> v1.DescribeJobResponse:
        return wire.to_description(await self._service.describe_job(call.tenant, request.id))
