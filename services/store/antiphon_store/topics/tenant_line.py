"""Operations on the line of tenants with waiting jobs: joining, claiming and leaving (`decisions.tenant_line`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job
from antiphon_store.decisions import tenant_line
from antiphon_store.decisions.jobs import LOOK_MS
from antiphon_store.rows.model import Entry, Index
from antiphon_store.topics.topic import Topic

VISITS_MAX = 64
"""The most tenants that one claim tries. Those without a due job leave, so the next claim gets further."""
FAR_MAX = 16


class TenantLine(Topic):
    """Operations on the line of tenants that have jobs in DISPATCH_QUEUE."""

    async def _join_line(self, tenant: str, *, places: int = 1, only_missing: bool = False) -> None:
        await self._trees.change(tenant_line.join, DISPATCH_TENANT, tenant, places=places, only_missing=only_missing)

    async def _claim_in_line(self, claim_of: Callable[[str], Awaitable[Job | None]]) -> Job | None:
        """Claims a job of the next tenant with `claim_of`; None when no tenant that was tried has one that is due."""
        for _ in range(VISITS_MAX):
            places = await self._rows.take_due(DISPATCH_TENANT, Index.QUEUE, DISPATCH_QUEUE, limit=1, hide_ms=0)
            places = places or await self._far_ahead(DISPATCH_TENANT, DISPATCH_QUEUE)
            for tenant in dict.fromkeys(tenant_line.tenant_of(each.id) for each in places):
                job = await claim_of(tenant)
                if job is not None:
                    return job
                await self._leave_line(tenant)
            if not places:
                break
        return None

    async def _leave_line(self, tenant: str) -> None:
        """Takes a tenant without a due job out of the line, unless there is a due job by now."""
        read = partial(tenant_line.read, tenant=tenant)
        seen = await self._trees.of_response(DISPATCH_TENANT, tenant, read, only_reads=True)
        now_ms, entries = await self._page(tenant, Index.QUEUE, DISPATCH_QUEUE, 1)
        due_at = entries[0].at if entries else None
        if due_at is None or due_at > now_ms:
            await self._trees.change(tenant_line.leave, DISPATCH_TENANT, tenant, seen, due_at)

    async def _far_ahead(self, tenant: str, queue: str) -> Sequence[Entry]:
        """Entries of a queue that are further ahead than operations file them: from before the clock was set back."""
        now_ms, entries = await self._page(tenant, Index.QUEUE, queue, FAR_MAX, descending=True)
        return [each for each in entries if each.at > now_ms + LOOK_MS]
