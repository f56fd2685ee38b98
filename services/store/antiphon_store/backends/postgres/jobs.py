"""The atoms of `roles.jobs`. A claim is one statement; what else may become of a job, `job_states` says, while its row
is locked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

from antiphon_core.errors import AlreadyExists, JobNotFound
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.store import Fence
from antiphon_store.backends import job_states
from antiphon_store.backends.job_states import Ending, Settlement, StoredJob
from antiphon_store.backends.node_rows import Row, require_intact
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.server import Connection


class PostgresJobs(Asking):
    """Implements `roles.jobs.JobAtoms`."""

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        async def atom(connection: Connection) -> None:
            async with connection.transaction():
                await self._enqueue(connection, tenant, draft, retention_ms)

        await self._connections.run(atom)

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        parameters = {
            "tenant": tenant,
            "queues": list(queues),
            "holder": holder.encode(),
            "lease_ttl_ms": lease_ttl_ms,
        }
        for _row, *columns, crc, payload in await self._run("claim_job", parameters):
            job = _job_of(columns)
            require_intact(job.id, crc, _checksum(job.id, payload))
            return job_states.granted(job, payload)
        return None

    async def heartbeat_job(self, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        def step(job: StoredJob, now_ms: int) -> StoredJob:
            job_states.require(job, fence)
            return job_states.extended(job, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)

        return job_states.pulse(await self._change(tenant, fence.session_id, step))

    async def settle_job(self, tenant: str, fence: Fence, outcome: JobOutcome, reason: str) -> None:
        def step(job: StoredJob, now_ms: int) -> StoredJob:
            return job_states.settled(job, fence, outcome, reason, now_ms=now_ms)

        await self._change(tenant, fence.session_id, step)

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        def step(job: StoredJob, now_ms: int) -> StoredJob:
            return job_states.cancelled(job, now_ms=now_ms)

        return job_states.heeds_cancellation(await self._change(tenant, job_id, step))

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        for now_ms, _row, *columns in await self._run("read_job", {"tenant": tenant, "job_id": job_id}):
            job = job_states.as_of(_job_of(columns), now_ms)
            if job is not None:
                return job_states.describe(job)
        raise JobNotFound.of(job_id)

    # ---- Within an atom ----

    async def _enqueue(self, connection: Connection, tenant: str, draft: JobDraft, retention_ms: int) -> None:
        """Tries to add it; an id that is taken is the same job, another one, or one that may be forgotten."""
        name = {"tenant": tenant, "job_id": draft.id}
        fresh = {
            **name,
            "queue": draft.queue,
            "max_attempts": draft.max_attempts,
            "retention_ms": retention_ms,
            "run_after_ms": draft.run_after_ms,
            "crc": _checksum(draft.id, draft.payload),
            "payload": draft.payload,
        }
        while not await self._ask(connection, "insert_job", fresh):
            for now_ms, row, *columns in await self._ask(connection, "lock_job", name):
                job = _job_of(columns)
                if job_states.as_of(job, now_ms) is None:
                    await self._ask(connection, "drop_job", {"job": row})
                    continue
                ((crc, payload),) = await self._ask(connection, "read_payload", {"job": row})
                require_intact(job.id, crc, _checksum(job.id, payload))
                if (job.queue, payload) != (draft.queue, draft.payload):
                    raise AlreadyExists.of(draft.id)
                return

    async def _change(self, tenant: str, job_id: str, step: Callable[[StoredJob, int], StoredJob]) -> StoredJob:
        """One step of a job, as of now. JobNotFound, and what `step` raises."""

        async def atom(connection: Connection) -> StoredJob:
            async with connection.transaction():
                for now_ms, row, *columns in await self._ask(
                    connection, "lock_job", {"tenant": tenant, "job_id": job_id}
                ):
                    job = job_states.as_of(_job_of(columns), now_ms)
                    if job is not None:
                        changed = step(job, now_ms)
                        await self._ask(connection, "update_job", {"job": row, **_changing(changed)})
                        return changed
            raise JobNotFound.of(job_id)

        return await self._connections.run(atom)


def _changing(job: StoredJob) -> dict[str, object]:
    settlement, ending = job.settlement, job.ending
    return {
        "available_at_ms": job.available_at_ms,
        "attempts": job.attempts,
        "holder": job.holder.encode(),
        "lease_expires_at_ms": job.lease_expires_at_ms,
        "cancel_requested": job.cancel_requested,
        "settled_attempt": settlement.attempt if settlement else None,
        "settled_outcome": settlement.outcome.value if settlement else None,
        "settled_reason": settlement.reason.encode() if settlement else None,
        "ended_as": ending.state.value if ending else None,
        "ended_reason": ending.reason.encode() if ending else None,
        "ended_at_ms": ending.at_ms if ending else None,
    }


def _job_of(columns: Row) -> StoredJob:
    *plain, holder, lease_expires_at_ms, cancel_requested = columns[:9]
    return replace(
        StoredJob(*plain),
        holder=holder.decode(),
        lease_expires_at_ms=lease_expires_at_ms,
        cancel_requested=cancel_requested,
        settlement=_settlement_of(*columns[9:12]),
        ending=_ending_of(*columns[12:15]),
    )


def _settlement_of(attempt: int | None, outcome: Any, reason: Any) -> Settlement | None:
    return Settlement(attempt, JobOutcome(outcome), reason.decode()) if attempt is not None else None


def _ending_of(state: Any, reason: Any, at_ms: int | None) -> Ending | None:
    return Ending(JobState(state), reason.decode(), at_ms) if at_ms is not None else None


def _checksum(job_id: str, payload: bytes) -> int:
    """CRC-32 of a payload. It begins with the job's id, so that another job's bytes are noticed as well."""
    return crc32(payload, crc32(job_id.encode()))
