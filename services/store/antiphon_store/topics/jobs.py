"""Operations on jobs: adding, claiming and settling them.

A queue has tickets, which name jobs in their trees. Claims from DISPATCH_QUEUE serve the tenants round robin
(`tenant_line`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial

from antiphon_core.errors import (
    AntiphonError,
    DataDamaged,
    InternalError,
    JobNotFound,
    RequestRateExceeded,
    StoreUnavailable,
)
from antiphon_core.ports.jobs import (
    DISPATCH_QUEUE,
    DISPATCH_TENANT,
    Job,
    JobDescription,
    JobDraft,
    JobOutcome,
    Jobs,
    JobState,
    QueueHead,
)
from antiphon_core.ports.store import Fence
from antiphon_core.telemetry import remedies
from antiphon_store.calls import implements
from antiphon_store.decisions import jobs
from antiphon_store.decisions.tenant_line import tenant_of
from antiphon_store.rows.model import Entry, Index
from antiphon_store.rows.view import Finish
from antiphon_store.topics.tenant_line import TenantLine
from antiphon_store.topics.topic import of_fence, of_id, one_step

log = logging.getLogger(__name__)

OPEN_JOBS_RETRY_MS = 10_000  # a guess: the end of a job cannot be predicted
TICKET_HIDE_MS = 1000  # how long a ticket is hidden from other claimers while its job is read
HIDDEN_PER_LOOK = 16
HIDDEN_MAX = 10_000  # queues of tenants that are remembered after failed claims
HELD_PER_LOOK = 4

_Claim = Callable[..., Finish[Job | None]]


class JobOperations(TenantLine):
    """The operations of `antiphon_core.ports.jobs.Jobs`."""

    heartbeat_job = one_step(Jobs.heartbeat_job, jobs.heartbeat, of_fence, needs_content=False)
    cancel_job = one_step(Jobs.cancel_job, jobs.cancel, of_id("job_id"), needs_content=False)

    @implements(Jobs.enqueue_job)
    async def enqueue_job(self, tenant: str, draft: JobDraft) -> Job | None:
        if draft.queue == DISPATCH_QUEUE:
            await self._require_room_for(tenant, draft.id)
        enqueue = partial(jobs.enqueue, draft=draft, retention_ms=self._settings.job_ttl_s * 1000)
        held = await self._trees.of_response(tenant, draft.id, enqueue)
        await self._hand_in(tenant, draft.queue)
        return held

    @implements(Jobs.claim_job)
    async def claim_job(
        self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int, wait_ms: int
    ) -> Job | None:
        return await self._claimers.until_there(
            [(tenant, queue) for queue in queues],
            lambda: self._claim_next(tenant, queues, holder, lease_ttl_ms),
            wait_ms=wait_ms,
        )

    @implements(Jobs.settle_job)
    async def settle_job(self, tenant: str, fence: Fence, outcome: JobOutcome, *, reason: str, after_ms: int) -> None:
        settle = partial(jobs.settle, fence=fence, outcome=outcome, reason=reason, after_ms=after_ms)
        queue = await self._bare.of_session(tenant, fence.session_id, settle)
        if queue == DISPATCH_QUEUE:
            await self._join_line(tenant)
        if queue is not None and after_ms == 0:
            self._wake(tenant, queue)

    @implements(Jobs.describe_job)
    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        job = await self._bare.of_response(tenant, job_id, partial(jobs.describe, job_id=job_id), only_reads=True)
        if job.state is JobState.QUEUED and job.queue == DISPATCH_QUEUE:
            # the process that enqueued the job may have died before the tenant joined the line
            await self._join_line(tenant, only_missing=True)
        return job

    async def queue_head(self, *, limit: int) -> QueueHead:
        """The jobs of all tenants in DISPATCH_QUEUE that are due, counted up to `limit`."""
        due: list[int] = []
        now_ms, places = await self._page(DISPATCH_TENANT, Index.QUEUE, DISPATCH_QUEUE, limit)
        for tenant in dict.fromkeys(tenant_of(each.id) for each in places if each.at <= now_ms):
            now_ms, entries = await self._page(tenant, Index.QUEUE, DISPATCH_QUEUE, limit - len(due))
            due += [each.at for each in entries if each.at <= now_ms]
            if len(due) >= limit:
                break
        return QueueHead(len(due), now_ms - min(due) if due else 0)

    # ---- Adding ----

    async def _hand_in(self, tenant: str, queue: str) -> None:
        """Puts the tenant of a new job into the line, and wakes a claimer. Can be repeated."""
        if queue == DISPATCH_QUEUE:
            await self._join_line(tenant, places=self._settings.job_weight(tenant))
        self._wake(tenant, queue)

    async def _require_room_for(self, tenant: str, job_id: str) -> None:
        """RequestRateExceeded: the job is new, and the tenant has the most open background responses already."""
        most = self._settings.jobs_per_tenant
        if not most or len((await self._page(tenant, Index.QUEUE, DISPATCH_QUEUE, most))[1]) < most:
            return
        with suppress(JobNotFound):
            await self.describe_job(tenant, job_id)
            return
        raise RequestRateExceeded(
            f"Rate limit reached on background responses that are not finished: Limit {most}. "
            "Please try again when some of them have ended.",
            retry_after_ms=OPEN_JOBS_RETRY_MS,
        )

    def _wake(self, tenant: str, queue: str) -> None:
        """Wakes a claimer of this process that waits for a job of the queue."""
        for each in {tenant, DISPATCH_TENANT if queue == DISPATCH_QUEUE else tenant}:
            self._claimers.wake_first((each, queue))

    # ---- Claiming ----

    async def _claim_next(self, tenant: str, queues: Sequence[str], holder: str, lease_ttl_ms: int) -> Job | None:
        """Claims the job of these queues that `holder` has, else the one that has been claimable for longest. Only one
        of several claimers gets it."""
        claim = partial(jobs.claim, holder=holder, lease_ttl_ms=lease_ttl_ms)
        if tenant == DISPATCH_TENANT:
            turn = partial(self._claim_of, claim=partial(claim, tells_end=True))
            return await self._claim_in_line(turn) if DISPATCH_QUEUE in queues else None
        for queue in queues:
            for ticket in await self._list_claimed(tenant, queue, holder):
                job = await self._claim(tenant, queue, ticket, partial(claim, only_own=True))
                if job is not None:
                    return job
        return await self._claim_due(tenant, queues, claim)

    async def _claim_of(self, tenant: str, claim: _Claim) -> Job | None:
        """Claims a job of the tenant that is next in the line."""
        job = await self._claim_due(tenant, [DISPATCH_QUEUE], claim)
        return replace(job, tenant=tenant) if job is not None else None

    async def _claim_due(self, tenant: str, queues: Sequence[str], claim: _Claim) -> Job | None:
        lines = {(tenant, queue) for queue in queues}
        try:
            while due := await self._due(tenant, queues):
                if (job := await self._claim_first(tenant, due, claim)) is not None:
                    return job
            if self._hidden.isdisjoint(lines):
                return None
            job = await self._claim_first(tenant, await self._hidden_tickets(tenant, queues), claim)
        except (AntiphonError, asyncio.CancelledError):
            self._expect_hidden(lines)
            raise
        if job is None:
            self._hidden -= lines
        return job

    async def _claim_first(self, tenant: str, tickets: Sequence[tuple[str, Entry]], claim: _Claim) -> Job | None:
        """Claims the first of these jobs that can be claimed."""
        for queue, ticket in tickets:
            job = await self._claim(tenant, queue, ticket, claim)
            if job is not None:
                return job
        return None

    def _expect_hidden(self, lines: Set[tuple[str, str]]) -> None:
        """Notes that a failed claim may have hidden tickets: later claims look for them until one finds none. Without
        this, a job whose claim a restart of the database interrupted would wait for TICKET_HIDE_MS."""
        if len(self._hidden) >= HIDDEN_MAX:
            self._hidden.clear()
        self._hidden |= lines

    async def _hidden_tickets(self, tenant: str, queues: Sequence[str]) -> Sequence[tuple[str, Entry]]:
        """The tickets that a failed claim may have hidden. Some may be hidden by other claimers: a claim checks the row
        of the job."""
        found: list[tuple[str, Entry]] = []
        for queue in queues:
            now_ms, entries = await self._page(tenant, Index.QUEUE, queue, HIDDEN_PER_LOOK)
            found += [(queue, each) for each in entries if each.at <= now_ms + TICKET_HIDE_MS]
        return found

    async def _claim(self, tenant: str, queue: str, ticket: Entry, claim: _Claim) -> Job | None:
        """Claims the job of a ticket. A job whose payload or row is damaged ends as failed, and one that is sealed with
        a missing key is tried again later: neither keeps the others from being claimed."""
        claim = partial(claim, queue=queue, taken_until=ticket.taken_until)
        try:
            return await self._trees.change(claim, tenant, ticket.id)
        except (InternalError, StoreUnavailable) as error:
            if "missing_key" in error.facts:
                return await self._bare.change(jobs.look_later, tenant, ticket.id, queue)
            if not isinstance(error, DataDamaged):
                raise
        log.error("job %s ends as failed: it is damaged", ticket.id, extra=remedies.RESTORE_DATA)
        try:
            return await self._bare.change(partial(claim, is_damaged=True), tenant, ticket.id)
        except DataDamaged:  # not only its payload
            kept_ms = self._settings.job_ttl_s * 1000
            end = partial(jobs.end_unreadable, queue=queue, due_at=ticket.at, retention_ms=kept_ms)
            failed = await self._bare.change(end, tenant, ticket.id)
            return failed if claim.keywords.get("tells_end") else None

    async def _list_claimed(self, tenant: str, queue: str, holder: str) -> Sequence[Entry]:
        """Tickets of the jobs that the holder claimed last."""
        key = jobs.held_key(queue, holder)
        return (await self._page(tenant, Index.HOLDER, key, HELD_PER_LOOK, descending=True))[1]

    async def _due(self, tenant: str, queues: Sequence[str]) -> Sequence[tuple[str, Entry]]:
        """Takes the due ticket that has waited longest, which hides it from other claimers for a moment, and names its
        queue. If none is due, returns those that lie too far ahead."""
        for queue in await self._by_first(tenant, queues):
            due = await self._rows.take_due(tenant, Index.QUEUE, queue, limit=1, hide_ms=TICKET_HIDE_MS)
            if due:
                return [(queue, due[0])]
        return [(queue, each) for queue in queues for each in await self._far_ahead(tenant, queue)]

    async def _by_first(self, tenant: str, queues: Sequence[str]) -> Sequence[str]:
        """Several queues by the times of their first tickets, without those that have none."""
        if len(queues) == 1:
            return queues
        firsts = {queue: (await self._page(tenant, Index.QUEUE, queue, 1))[1] for queue in queues}
        return sorted((each for each in firsts if firsts[each]), key=lambda queue: firsts[queue][0].at)
