"""Jobs and event logs. A queue has tickets, which name jobs in their trees. The jobs of DISPATCH_QUEUE are claimed by
turns of their tenants (`tenant_line`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    JobPulse,
    JobState,
    QueueHead,
)
from antiphon_core.ports.store import Fence
from antiphon_store.backends.roles.event_logs import LogPage
from antiphon_store.decisions import jobs, logs
from antiphon_store.decisions.tenant_line import tenant_of
from antiphon_store.engine.tenant_line import TenantLine, far_ahead
from antiphon_store.engine.trees import Trees
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Entry, Index, Partition

TICKET_HIDE_MS = 1000  # how long a ticket is kept from others while its job is looked at
HELD_PER_LOOK = 4


class _Ticket(NamedTuple):
    """An entry of a queue."""

    at_ms: int
    job_id: str
    queue: str
    taken_until: int = 0


class JobOperations:
    """Work that any process may take up."""

    def __init__(self, rows: RowBackend, trees: Trees, line: TenantLine) -> None:
        self._rows = rows
        self._trees = trees
        self._line = line

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int, places: int = 1) -> None:
        decision = partial(jobs.enqueue, draft=draft, retention_ms=retention_ms)
        await self._trees.of_response(tenant, draft.id, decision)
        if draft.queue == DISPATCH_QUEUE:
            await self._line.join(tenant, places=places)

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        claim = partial(jobs.claim, holder=holder, lease_ttl_ms=lease_ttl_ms)
        if tenant == DISPATCH_TENANT:
            turn = partial(self._claim_of, claim=partial(claim, tells_end=True))
            return await self._line.claim(turn) if DISPATCH_QUEUE in queues else None
        for ticket in await self._held(tenant, queues, holder):
            job = await self._claim(tenant, ticket, partial(claim, only_own=True))
            if job is not None:
                return job
        return await self._claim_due(tenant, queues, claim)

    async def _claim_of(self, tenant: str, claim: Callable[..., Finish[Job | None]]) -> Job | None:
        """A job of a tenant whose turn it is."""
        job = await self._claim_due(tenant, [DISPATCH_QUEUE], claim)
        return replace(job, tenant=tenant) if job is not None else None

    async def _claim_due(
        self, tenant: str, queues: Sequence[str], claim: Callable[..., Finish[Job | None]]
    ) -> Job | None:
        while due := await self._due(tenant, queues):
            for place, ticket in enumerate(due):
                job = await self._claim(tenant, ticket, claim)
                if job is not None:
                    await self._put_back(tenant, due[place + 1 :])
                    return job
        return None

    async def heartbeat_job(self, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        decision = partial(jobs.heartbeat, fence=fence, lease_ttl_ms=lease_ttl_ms)
        return await self._trees.of_response(tenant, fence.session_id, decision)

    async def settle_job(
        self, tenant: str, fence: Fence, outcome: JobOutcome, reason: str, after_ms: int = 0
    ) -> str | None:
        """The queue in which the job waits again, if it does."""
        decision = partial(jobs.settle, fence=fence, outcome=outcome, reason=reason, after_ms=after_ms)
        queue = await self._trees.of_response(tenant, fence.session_id, decision)
        if queue == DISPATCH_QUEUE:
            await self._line.join(tenant)
        return queue

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        return await self._trees.of_response(tenant, job_id, partial(jobs.cancel, job_id=job_id))

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        decision = partial(jobs.describe, job_id=job_id)
        job = await self._trees.of_response(tenant, job_id, decision, only_reads=True)
        if job.state is JobState.QUEUED and job.queue == DISPATCH_QUEUE:
            await self._line.join(tenant, only_missing=True)  # whoever enqueued it may have died before that
        return job

    async def count_jobs(self, tenant: str, queue: str, *, limit: int) -> int:
        _, entries = await self._rows.page(Partition(tenant, ""), Index.QUEUE, queue, after=None, limit=limit)
        return len(entries)

    async def queue_head(self, *, limit: int) -> QueueHead:
        """The jobs of all tenants in DISPATCH_QUEUE that are due, counted up to `limit`."""
        due: list[int] = []
        now_ms, places = await self._page(DISPATCH_TENANT, limit)
        for tenant in dict.fromkeys(tenant_of(each.id) for each in places if each.at <= now_ms):
            now_ms, entries = await self._page(tenant, limit - len(due))
            due += [each.at for each in entries if each.at <= now_ms]
            if len(due) >= limit:
                break
        return QueueHead(len(due), now_ms - min(due) if due else 0)

    async def _page(self, tenant: str, limit: int) -> tuple[int, Sequence[Entry]]:
        return await self._rows.page(Partition(tenant, ""), Index.QUEUE, DISPATCH_QUEUE, after=None, limit=limit)

    async def _held(self, tenant: str, queues: Sequence[str], holder: str) -> list[_Ticket]:
        """The jobs that the holder claimed last."""
        held: list[_Ticket] = []
        for queue in queues:
            key = jobs.held_key(queue, holder)
            _, entries = await self._rows.page(
                Partition(tenant, ""), Index.HOLDER, key, after=None, limit=HELD_PER_LOOK, descending=True
            )
            held += [_Ticket(each.at, each.id, queue) for each in entries]
        return held

    async def _due(self, tenant: str, queues: Sequence[str]) -> list[_Ticket]:
        """Tickets whose time has come, kept from others for a moment; the one that has waited for longest first. Where
        there is none: those that lie too far ahead."""
        due: list[_Ticket] = []
        for queue in queues:
            entries = await self._rows.take_due(tenant, Index.QUEUE, queue, limit=1, hide_ms=TICKET_HIDE_MS)
            due += [_Ticket(each.at, each.id, queue, each.taken_until) for each in entries]
        if not due:
            for queue in queues:
                due += [_Ticket(each.at, each.id, queue) for each in await far_ahead(self._rows, tenant, queue)]
        return sorted(due)

    async def _claim(self, tenant: str, ticket: _Ticket, claim: Callable[..., Finish[Job | None]]) -> Job | None:
        decision = partial(claim, job_id=ticket.job_id, queue=ticket.queue, taken_until=ticket.taken_until)
        return await self._trees.of_response(tenant, ticket.job_id, decision)

    async def _put_back(self, tenant: str, tickets: Sequence[_Ticket]) -> None:
        """Tickets that were taken and not used are due again."""
        for ticket in tickets:
            decision = partial(jobs.put_back, job_id=ticket.job_id, at_ms=ticket.at_ms)
            await self._trees.of_response(tenant, ticket.job_id, decision)


class EventLogOperations:
    """The event logs of responses."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        decision = partial(logs.append, append=append, fence=fence, ttl_ms=ttl_ms)
        sessions = [(fence.session_id, "fence.session_id")] if fence is not None else []
        return await self._trees.of_record(tenant, append.response_id, sessions, decision)

    async def read_log(self, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        decision = partial(logs.read, log_id=response_id, position=position, max_bytes=max_bytes)
        return await self._trees.of_response(tenant, response_id, decision, only_reads=True)
