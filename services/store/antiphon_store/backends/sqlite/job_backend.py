"""The jobs of the SQLite engine: each atom handed to the thread that runs it."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.store import Fence
from antiphon_store.backends.sqlite import job_atoms as atoms
from antiphon_store.backends.sqlite.threads import Threads


class SqliteJobs:
    """Implements `roles.jobs.JobAtoms` for SqliteBackend."""

    async def enqueue_job(self: Threads, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        await self._writes.run(
            lambda connection: atoms.enqueue(
                connection, tenant, draft, retention_ms=retention_ms, now_ms=self._now_ms()
            )
        )

    async def claim_job(
        self: Threads, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int
    ) -> Job | None:
        return await self._writes.run(
            lambda connection: atoms.claim(
                connection, tenant, queues, holder=holder, lease_ttl_ms=lease_ttl_ms, now_ms=self._now_ms()
            )
        )

    async def heartbeat_job(self: Threads, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        return await self._writes.run(
            lambda connection: atoms.heartbeat(
                connection, tenant, fence, lease_ttl_ms=lease_ttl_ms, now_ms=self._now_ms()
            )
        )

    async def settle_job(self: Threads, tenant: str, fence: Fence, outcome: JobOutcome, reason: str) -> None:
        await self._writes.run(
            lambda connection: atoms.settle(connection, tenant, fence, outcome, reason, now_ms=self._now_ms())
        )

    async def cancel_job(self: Threads, tenant: str, job_id: str) -> bool:
        return await self._writes.run(
            lambda connection: atoms.cancel(connection, tenant, job_id, now_ms=self._now_ms())
        )

    async def describe_job(self: Threads, tenant: str, job_id: str) -> JobDescription:
        return await self._reads.run(
            lambda connection: atoms.describe(connection, tenant, job_id, now_ms=self._now_ms())
        )
