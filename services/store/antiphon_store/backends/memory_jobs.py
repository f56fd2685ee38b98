"""The jobs of the memory engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon_core.errors import AlreadyExists, JobNotFound
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.store import Fence
from antiphon_store.backends import job_states
from antiphon_store.backends.job_states import StoredJob


@dataclass(slots=True, eq=False)
class MemoryJob:
    stored: StoredJob
    payload: bytes


class MemoryJobTable:
    """All jobs of all tenants; those that have not ended can be found by queue."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], MemoryJob] = {}  # by tenant and id
        self._open: dict[tuple[str, str], dict[str, MemoryJob]] = {}  # by tenant and queue, then by id

    def add(self, tenant: str, job: MemoryJob) -> None:
        self.drop(tenant, job.stored.id)
        self.jobs[tenant, job.stored.id] = job
        self._open.setdefault((tenant, job.stored.queue), {})[job.stored.id] = job

    def drop(self, tenant: str, job_id: str) -> None:
        former = self.jobs.pop((tenant, job_id), None)
        if former is not None:
            self._close(tenant, former)

    def update(self, tenant: str, job: MemoryJob, stored: StoredJob) -> None:
        job.stored = stored
        if stored.ending is not None:
            self._close(tenant, job)

    def find(self, tenant: str, job_id: str, now_ms: int) -> MemoryJob | None:
        """The job as of now."""
        job = self.jobs.get((tenant, job_id))
        return job if job is not None and self._refresh(tenant, job, now_ms) else None

    def waiting(self, tenant: str, queues: Sequence[str], now_ms: int) -> Iterator[MemoryJob]:
        """Jobs of these queues that have not ended, as of now, in the order in which they were added."""
        for queue in queues:
            for job in list(self._open.get((tenant, queue), {}).values()):
                if self._refresh(tenant, job, now_ms) and job.stored.ending is None:
                    yield job

    def _refresh(self, tenant: str, job: MemoryJob, now_ms: int) -> bool:
        stored = job_states.as_of(job.stored, now_ms)
        if stored is None:
            self.drop(tenant, job.stored.id)
            return False
        self.update(tenant, job, stored)
        return True

    def _close(self, tenant: str, job: MemoryJob) -> None:
        queue = self._open.get((tenant, job.stored.queue), {})
        queue.pop(job.stored.id, None)
        if not queue:
            self._open.pop((tenant, job.stored.queue), None)


class _Memory(Protocol):
    """What the engine has for its topics."""

    _job_table: MemoryJobTable

    def _now_ms(self) -> int: ...


class MemoryJobs:
    """Implements `roles.jobs.JobAtoms` for MemoryBackend."""

    async def enqueue_job(self: _Memory, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        now_ms = self._now_ms()
        job = self._job_table.find(tenant, draft.id, now_ms)
        if job is None:
            stored = job_states.enqueued(draft, retention_ms=retention_ms, now_ms=now_ms)
            self._job_table.add(tenant, MemoryJob(stored, draft.payload))
        elif (job.stored.queue, job.payload) != (draft.queue, draft.payload):
            raise AlreadyExists.of(draft.id)

    async def claim_job(
        self: _Memory, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int
    ) -> Job | None:
        now_ms = self._now_ms()
        waiting = list(self._job_table.waiting(tenant, queues, now_ms))
        own = [job for job in waiting if job.stored.holder == holder]
        free = [job for job in waiting if not job.stored.is_held and job.stored.available_at_ms <= now_ms]
        chosen = own or free
        if not chosen:
            return None
        job = min(chosen, key=lambda each: each.stored.available_at_ms)
        stored = job_states.claimed(job.stored, holder=holder, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)
        self._job_table.update(tenant, job, stored)
        return job_states.granted(stored, job.payload)

    async def heartbeat_job(self: _Memory, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        now_ms = self._now_ms()
        job = _require(self._job_table, tenant, fence.session_id, now_ms)
        job_states.require(job.stored, fence)
        stored = job_states.extended(job.stored, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)
        self._job_table.update(tenant, job, stored)
        return job_states.pulse(stored)

    async def settle_job(self: _Memory, tenant: str, fence: Fence, outcome: JobOutcome, reason: str) -> None:
        now_ms = self._now_ms()
        job = _require(self._job_table, tenant, fence.session_id, now_ms)
        stored = job_states.settled(job.stored, fence, outcome, reason, now_ms=now_ms)
        self._job_table.update(tenant, job, stored)

    async def cancel_job(self: _Memory, tenant: str, job_id: str) -> bool:
        now_ms = self._now_ms()
        job = _require(self._job_table, tenant, job_id, now_ms)
        self._job_table.update(tenant, job, job_states.cancelled(job.stored, now_ms=now_ms))
        return job_states.heeds_cancellation(job.stored)

    async def describe_job(self: _Memory, tenant: str, job_id: str) -> JobDescription:
        return job_states.describe(_require(self._job_table, tenant, job_id, self._now_ms()).stored)


def _require(table: MemoryJobTable, tenant: str, job_id: str, now_ms: int) -> MemoryJob:
    job = table.find(tenant, job_id, now_ms)
    if job is None:
        raise JobNotFound.of(job_id)
    return job
