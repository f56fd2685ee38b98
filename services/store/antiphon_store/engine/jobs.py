"""Jobs and event logs. A queue is a line of tickets, which name jobs in their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from antiphon_core.errors import JobNotFound
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job, JobDraft, QueueHead, ticket_of
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import jobs, logs
from antiphon_store.engine.operations import Operations, on_response, under_fence
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Index, Partition

TICKET_ATTEMPTS = 100  # a ticket is taken up again for as long as its job is
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
    settle_job = under_fence(jobs.settle)
    cancel_job = on_response(jobs.cancel)
    describe_job = on_response(jobs.describe, only_reads=True)

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        """Adds a job that will be remembered for `retention_ms` after its end. In one step with the look whether the id
        is taken. AlreadyExists: by a job with another queue or payload."""
        decision = partial(jobs.enqueue, draft=draft, retention_ms=retention_ms)
        await self._trees.of_response(tenant, draft.id, decision)

    async def hand_in(self, tenant: str, response_id: str, *, retention_ms: int) -> None:
        """Tells workers, who do not know the tenants, of a job that is there or is about to be: adds a ticket that
        names it to a queue of our own. A worker verifies it at the job. Repeating it does no harm."""
        ticket = JobDraft(response_id, DISPATCH_QUEUE, ticket_of(tenant, response_id), max_attempts=TICKET_ATTEMPTS)
        decision = partial(jobs.hand_in, ticket=ticket, retention_ms=retention_ms)
        await self._trees.of_response(DISPATCH_TENANT, response_id, decision)

    async def take_back(self, response_id: str) -> None:
        """Ends the ticket of a job that was refused."""
        with suppress(JobNotFound):
            await self.cancel_job(DISPATCH_TENANT, response_id)

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        """The job of these queues that `holder` has, else the one that has been claimable for longest, with the next
        fencing token. Of any number of claimers one gets it."""
        claim = partial(jobs.claim, holder=holder, lease_ttl_ms=lease_ttl_ms)
        for ticket in await self._held(tenant, queues, holder):
            job = await self._claim(tenant, ticket, partial(claim, only_own=True))
            if job is not None:
                return job
        while due := await self._due(tenant, queues):
            for place, ticket in enumerate(due):
                job = await self._claim(tenant, ticket, claim)
                if job is not None:
                    await self._put_back(tenant, due[place + 1 :])
                    return job
        return None

    async def queue_head(self, tenant: str, queue: str, *, limit: int) -> QueueHead:
        """The jobs of a queue that are due, counted up to `limit`."""
        now_ms, entries = await self._rows.page(Partition(tenant, ""), Index.QUEUE, queue, after=None, limit=limit)
        due = [each.at for each in entries if each.at <= now_ms]
        return QueueHead(len(due), now_ms - due[0] if due else 0)

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
        """Tickets whose time has come, kept from others for a moment; the one that has waited for longest first."""
        due: list[_Ticket] = []
        for queue in queues:
            entries = await self._rows.take_due(tenant, Index.QUEUE, queue, limit=1, hide_ms=TICKET_HIDE_MS)
            due += [_Ticket(each.at, each.id, queue, each.taken_until) for each in entries]
        return sorted(due)

    async def _claim(self, tenant: str, ticket: _Ticket, claim: Callable[..., Finish[Job | None]]) -> Job | None:
        decision = partial(claim, job_id=ticket.job_id, queue=ticket.queue, taken_until=ticket.taken_until)
        return await self._trees.of_response(tenant, ticket.job_id, decision)

    async def _put_back(self, tenant: str, tickets: Sequence[_Ticket]) -> None:
        """Tickets that were taken and not used are due again."""
        for ticket in tickets:
            decision = partial(jobs.put_back, job_id=ticket.job_id, at_ms=ticket.at_ms)
            await self._trees.of_response(tenant, ticket.job_id, decision)


class EventLogOperations(Operations):
    """The event logs of responses."""

    read_log = on_response(logs.read, only_reads=True)

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        """Appends one batch: the next position. In one step: whether the batch is there already (then nothing changes),
        the fence (a job's when there is a job of its `session_id`, else a session's), the end of the log, the new
        batch, the log's new end and that it expires in `ttl_ms`.

        An expired log is none: the next append begins anew at 0. PositionMismatch, LogClosed, StaleFence."""
        decision = partial(logs.append, append=append, fence=fence, ttl_ms=ttl_ms)
        sessions = [(fence.session_id, "fence.session_id")] if fence is not None else []
        return await self._trees.of_record(tenant, append.response_id, sessions, decision)
