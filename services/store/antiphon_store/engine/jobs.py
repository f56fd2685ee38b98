"""Jobs. A queue has tickets, which name jobs in their trees. The jobs of DISPATCH_QUEUE are claimed by
turns of their tenants (`tenant_line`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    JobState,
    QueueHead,
)
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import jobs
from antiphon_store.decisions.tenant_line import tenant_of
from antiphon_store.engine.operations import Operations, on_response, under_fence
from antiphon_store.engine.tenant_line import TenantLine, far_ahead
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


class JobOperations(Operations):
    """Work that any process may take up. JobNotFound: the id was never enqueued, or the job ended longer ago than it is
    remembered."""

    heartbeat_job = under_fence(jobs.heartbeat)
    cancel_job = on_response(jobs.cancel)
    _settle = under_fence(jobs.settle)
    _describe = on_response(jobs.describe, only_reads=True)

    def __init__(self, rows: RowBackend) -> None:
        super().__init__(rows)
        self._line = TenantLine(rows, self._runner)

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int, places: int = 1) -> None:
        """Adds a job that will be remembered for `retention_ms` after its end. In one step with the look whether the id
        is taken. AlreadyExists: by a job with another queue or payload. `places`: how often the tenant stands in the
        line of tenants, where the job is one of DISPATCH_QUEUE."""
        decision = partial(jobs.enqueue, draft=draft, retention_ms=retention_ms)
        await self._trees.of_response(tenant, draft.id, decision)
        if draft.queue == DISPATCH_QUEUE:
            await self.hand_in(tenant, places=places)

    async def hand_in(self, tenant: str, *, places: int = 1) -> None:
        """Puts a tenant with a new job into the line of tenants. Repeating it does no harm."""
        await self._line.join(tenant, places=places)

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        """The job of these queues that `holder` has, else the one that has been claimable for longest, with the next
        fencing token. Of any number of claimers one gets it."""
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

    async def settle_job(
        self, tenant: str, fence: Fence, outcome: JobOutcome, reason: str, after_ms: int = 0
    ) -> str | None:
        """Ends the attempt, in one step with the look at the fence: the queue in which the job waits again, for
        `after_ms` at least. JobNotFound, StaleFence."""
        queue = await self._settle(tenant, fence, outcome, reason, after_ms=after_ms)
        if queue == DISPATCH_QUEUE:
            await self._line.join(tenant)
        return queue

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        """The job as it is now. JobNotFound."""
        job = await self._describe(tenant, job_id)
        if job.state is JobState.QUEUED and job.queue == DISPATCH_QUEUE:
            await self._line.join(tenant, only_missing=True)  # whoever enqueued it may have died before that
        return job

    async def count_jobs(self, tenant: str, queue: str, *, limit: int) -> int:
        """The open jobs of a queue, counted up to `limit`: those that wait and those that run."""
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
