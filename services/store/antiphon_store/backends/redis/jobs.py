"""The jobs of the Redis engine. What may become of a job, lua/parts/jobs.lua and job_steps.lua say."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from zlib import crc32

from antiphon_core.errors import InternalError
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.store import Fence
from antiphon_core.telemetry import remedies
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.calls import Argument, fence_arguments
from antiphon_store.backends.redis.engine import Engine

log = logging.getLogger(__name__)


class RedisJobs:
    """Implements `roles.jobs.JobAtoms` for RedisBackend. Unimplemented where a tenant's data are not in one slot."""

    async def enqueue_job(self: Engine, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        keys = self._keys.job_keys(tenant, draft.id, "EnqueueJob")
        arguments: list[Argument] = [
            draft.id,
            draft.queue,
            draft.max_attempts,
            retention_ms,
            draft.run_after_ms,
            _checksum(draft.id, draft.payload),
            draft.payload,
        ]
        await self._run(scripts.ENQUEUE_JOB, tenant, keys, arguments)

    async def claim_job(
        self: Engine, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int
    ) -> Job | None:
        keys = [self._keys.tenant_root(tenant, "ClaimJob")]
        answer = await self._run(scripts.CLAIM_JOB, tenant, keys, [holder, lease_ttl_ms, *queues])
        return read_job(*answer) if answer[0] else None

    async def heartbeat_job(self: Engine, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        keys = self._keys.job_keys(tenant, fence.session_id, "HeartbeatJob")
        answer = await self._run(scripts.HEARTBEAT_JOB, tenant, keys, [*fence_arguments(fence), lease_ttl_ms])
        cancel_requested, lease_expires_at_ms = answer
        return JobPulse(_flag(cancel_requested), lease_expires_at_ms)

    async def settle_job(self: Engine, tenant: str, fence: Fence, outcome: JobOutcome, reason: str) -> None:
        keys = self._keys.job_keys(tenant, fence.session_id, "SettleJob")
        await self._run(scripts.SETTLE_JOB, tenant, keys, [*fence_arguments(fence), outcome.value, reason])

    async def cancel_job(self: Engine, tenant: str, job_id: str) -> bool:
        keys = self._keys.job_keys(tenant, job_id, "CancelJob")
        (heeded,) = await self._run(scripts.CANCEL_JOB, tenant, keys, [job_id])
        return bool(heeded)

    async def describe_job(self: Engine, tenant: str, job_id: str) -> JobDescription:
        _root, key = self._keys.job_keys(tenant, job_id, "Jobs")
        answer = await self._run(scripts.DESCRIBE_JOB, tenant, [key], [job_id])
        queue, state, attempts, max_attempts, cancel_requested, reason = answer
        return JobDescription(
            id=job_id,
            queue=queue.decode(),
            state=JobState(state.decode()),
            attempts=attempts,
            max_attempts=max_attempts,
            cancel_requested=_flag(cancel_requested),
            reason=reason.decode(),
        )


def read_job(
    id_: bytes,
    queue: bytes,
    attempts: int,
    max_attempts: int,
    cancel_requested: bytes,
    lease_expires_at_ms: int,
    crc: bytes,
    payload: bytes,
) -> Job:
    """What a claimer gets. InternalError: the payload's bytes are not those that were written."""
    job_id = id_.decode()
    if _checksum(job_id, payload) != int(crc):
        log.error(
            "the stored payload of the job %s is damaged: its checksum differs", job_id, extra=remedies.RESTORE_DATA
        )
        raise InternalError(f"The stored payload of '{job_id}' is damaged.", id=job_id)
    return Job(
        id=job_id,
        queue=queue.decode(),
        payload=payload,
        attempt=attempts,
        max_attempts=max_attempts,
        cancel_requested=_flag(cancel_requested),
        fence=Fence(job_id, attempts),
        lease_expires_at_ms=lease_expires_at_ms,
    )


def _checksum(job_id: str, payload: bytes) -> int:
    """CRC-32 of a payload. It begins with the job's id, so that another job's bytes are noticed as well."""
    return crc32(payload, crc32(job_id.encode()))


def _flag(word: bytes) -> bool:
    return word == b"1"
