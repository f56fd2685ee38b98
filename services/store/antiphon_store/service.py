"""The store as its callers see it, over any backend.

It owns the rules that a user can name: what ids, counts and times may be (`rules`), how long a response lives when
nobody says, how long a call waits for a session. It must never read something and then write by what it read: what has
to be indivisible is one atom of the backend. It holds no data, so any number of services may share an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from antiphon_core import items, limits, offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import Ids, RandomIds, is_conversation_id
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    ItemPage,
    Lease,
    Order,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_store import rules
from antiphon_store.conversations.service import ConversationOperations
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.event_logs.service import EventLogOperations
from antiphon_store.idempotency.service import IdempotencyOperations
from antiphon_store.jobs.service import JobOperations
from antiphon_store.lineage.service import LineageOperations
from antiphon_store.prompts.service import PromptOperations
from antiphon_store.retention.service import RetentionOperations
from antiphon_store.settings import StoreSettings
from antiphon_store.spending.service import SpendingOperations
from antiphon_store.values import Write
from antiphon_store.waiting import WaitingLines


class StoreService(
    EventLogOperations,
    JobOperations,
    RetentionOperations,
    ConversationOperations,
    LineageOperations,
    IdempotencyOperations,
    PromptOperations,
    SpendingOperations,
):
    """Implements `antiphon_core.ports.store.ResponseStore`. The backend is opened and closed by whoever made it."""

    def __init__(self, backend: StoreEngine, settings: StoreSettings | None = None, *, ids: Ids | None = None) -> None:
        self._backend = backend
        self._ids = ids or RandomIds()
        self._settings = settings or StoreSettings()
        self._sessions = WaitingLines(poll_s=self._settings.lease_poll_ms / 1000)
        self._followers = WaitingLines(poll_s=self._settings.event_poll_ms / 1000)
        self._claimers = WaitingLines(poll_s=self._settings.job_poll_ms / 1000)

    async def ready(self) -> None:
        await self._backend.ready()

    def end_waits(self) -> None:
        """Has calls that wait for a session, a job or an event end now, before the process does."""
        for waiting in (self._sessions, self._claimers, self._followers):
            waiting.end_waits()

    # ---- Records ----

    async def put(
        self,
        tenant: str,
        record: Record,
        *,
        precondition: Precondition = NO_PRECONDITION,
        ttl_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_record(record)
        rules.check_precondition(precondition)
        rules.check_key(idempotency_key)
        lifetime_ms = self._lifetime_ms(record, ttl_ms)
        write = await self._write(record, precondition, lifetime_ms)
        return await self._put(tenant, write, idempotency_key)

    async def get(self, tenant: str, response_id: str) -> Record:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        return await self._backend.fetch(tenant, response_id)

    async def delete(self, tenant: str, response_id: str, *, precondition: Precondition = NO_PRECONDITION) -> None:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_precondition(precondition)
        await self._backend.remove(tenant, response_id, precondition)

    async def list_items(
        self,
        tenant: str,
        response_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "response_id")
        rules.check_page_limit(limit)
        rules.check_after(after)
        record = await self._backend.fetch(tenant, response_id)
        cut = partial(items.page, record.input_items, after=after, limit=limit, order=order)
        page = await offload.run(cut, size_bytes=len(record.input_items))
        if page is None:
            raise InvalidRequest(
                f"'after' names no input item of '{response_id}'.", field="after", code="invalid_value"
            )
        return page

    # ---- Lineage ----

    async def chain(
        self,
        tenant: str,
        response_id: str,
        *,
        max_depth: int = limits.CHAIN_DEPTH_MAX,
        max_bytes: int = limits.CHAIN_BYTES_MAX,
    ) -> Sequence[Record]:
        rules.check_tenant(tenant)
        rules.check_response_id(response_id, "id")
        rules.check_chain_bounds(max_depth, max_bytes)
        return await self._backend.ancestry(tenant, response_id, max_depth=max_depth, max_bytes=max_bytes)

    # ---- Sessions ----

    async def acquire_session(
        self,
        tenant: str,
        session_id: str,
        *,
        holder: str,
        ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Lease:
        rules.check_tenant(tenant)
        rules.check_session_id(session_id, "session_id")
        rules.check_holder(holder)
        rules.check_lease_ttl(ttl_ms)
        rules.check_wait(wait_ms)
        return await self._sessions.until_free(
            (tenant, session_id),
            lambda: self._backend.acquire_lease(tenant, session_id, holder=holder, ttl_ms=ttl_ms),
            wait_ms=wait_ms,
        )

    async def renew_session(self, tenant: str, fence: Fence, *, ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT) -> Lease:
        rules.check_tenant(tenant)
        rules.check_fence(fence)
        rules.check_lease_ttl(ttl_ms)
        return await self._backend.renew_lease(tenant, fence, ttl_ms=ttl_ms)

    async def release_session(self, tenant: str, fence: Fence) -> bool:
        rules.check_tenant(tenant)
        rules.check_fence(fence)
        released = await self._backend.release_lease(tenant, fence)
        self._sessions.wake_first((tenant, fence.session_id))
        return released

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        rules.check_tenant(tenant)
        rules.check_session_id(session_id, "session_id")
        return await self._backend.describe_session(tenant, session_id)

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        rules.check_tenant(tenant)
        rules.check_turn_request(request)
        if request.session_id is None:
            return await self._begin_turn(tenant, request)
        if self._settings.max_session_responses is not None:
            await self._backend.require_room(
                tenant, request.session_id, holder=request.holder, most=self._settings.max_session_responses
            )
        return await self._sessions.until_free(
            (tenant, request.session_id),
            lambda: self._begin_turn(tenant, request),
            wait_ms=request.wait_ms,
        )

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        rules.check_tenant(tenant)
        rules.check_turn_commit(commit)
        lifetime_ms = self._lifetime_ms(commit.record, commit.ttl_ms)
        log_end, job = self._log_end(commit), self._queued_job(commit)
        write = await self._write(commit.record, commit.precondition, lifetime_ms)
        write = replace(write, log_end=log_end, job=job)
        async with self._handed_in(tenant, job):
            stamp = await self._commit_turn(tenant, write, commit.fence, commit.idempotency_key)
        if commit.fence is not None:
            self._sessions.wake_first((tenant, commit.fence.session_id))
        if log_end is not None:
            self._followers.wake_all((tenant, commit.record.id))
        return stamp

    async def abort_turn(
        self,
        tenant: str,
        fence: Fence | None,
        *,
        idempotency_key: str | None = None,
        response_id: str | None = None,
    ) -> None:
        rules.check_tenant(tenant)
        rules.check_claim(idempotency_key, response_id)
        if fence is not None:
            rules.check_fence(fence)
        if idempotency_key is not None and response_id is not None:
            await self._forget_key(tenant, idempotency_key, response_id)
        if fence is not None:
            await self.release_session(tenant, fence)

    async def _write(self, record: Record, precondition: Precondition, lifetime_ms: int | None) -> Write:
        size_bytes = work_bytes(record.body) + work_bytes(record.input_items) + work_bytes(record.output_items)
        item_ids, record = await offload.run(lambda: _checked(record), size_bytes=size_bytes)
        return Write(
            record,
            precondition,
            lifetime_ms,
            item_ids,
            session_responses_max=self._settings.max_session_responses,
        )

    def _lifetime_ms(self, record: Record, ttl_ms: int | None) -> int | None:
        """The lifetime of a record: what its writer asked for, within the policy. What was said in a conversation stays
        as long as the policy allows: a conversation must not forget its beginning."""
        rules.check_ttl(ttl_ms)
        most_s = self._settings.max_ttl_s
        if ttl_ms is None:
            is_in_conversation = is_conversation_id(record.session_id or "")
            default_s = most_s if is_in_conversation else self._settings.default_ttl_s
            return None if default_s is None else default_s * 1000
        if most_s is not None:
            rules.check_range(ttl_ms, 1, most_s * 1000, "ttl_ms")
        return ttl_ms


def _checked(record: Record) -> tuple[tuple[str, ...], Record]:
    """The ids of a record's items, and the record as it is stored. InvalidRequest."""
    return rules.check_content(record), rules.tight(record)
