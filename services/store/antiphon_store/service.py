"""The store as its callers see it, over any backend.

It owns the rules that a user can name: what arguments may be (`arguments`), how long a response lives when nobody says,
how long a call waits for a session. It must never read something and then write by what it read: what has to be
indivisible is one operation of the engine. It holds no data, so any number of services may share an engine.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from antiphon_core import limits, offload
from antiphon_core.ids import Ids, RandomIds, is_conversation_id
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.prompts import PromptStore
from antiphon_core.ports.retention import Retention
from antiphon_core.ports.spending import Spending
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    ItemPage,
    Lease,
    Order,
    Precondition,
    Record,
    ResponseStore,
    Stamp,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_store.arguments import checked, handed_on
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rules import common as rules
from antiphon_store.settings import StoreSettings
from antiphon_store.topics.conversations import ConversationOperations, item_page
from antiphon_store.topics.event_logs import EventLogOperations
from antiphon_store.topics.jobs import JobOperations
from antiphon_store.topics.lineage import LineageOperations
from antiphon_store.values import Write
from antiphon_store.waiting import WaitingLines


class StoreService(EventLogOperations, JobOperations, ConversationOperations, LineageOperations):
    """Implements `antiphon_core.ports.full_store.FullStore` and `Retention`. The engine is opened and closed by its
    maker."""

    def __init__(self, engine: StoreEngine, settings: StoreSettings | None = None, *, ids: Ids | None = None) -> None:
        self.engine = engine
        self._ids = ids or RandomIds()
        self._settings = settings or StoreSettings()
        self._sessions = WaitingLines(poll_s=self._settings.lease_poll_ms / 1000)
        self._followers = WaitingLines(poll_s=self._settings.event_poll_ms / 1000)
        self._claimers = WaitingLines(poll_s=self._settings.job_poll_ms / 1000)

    async def ready(self) -> None:
        await self.engine.ready()

    def end_waits(self) -> None:
        """Has calls that wait for a session, a job or an event end now, before the process does."""
        for waiting in (self._sessions, self._claimers, self._followers):
            waiting.end_waits()

    # ---- Records ----

    get = handed_on(ResponseStore.get, "fetch")
    delete = handed_on(ResponseStore.delete, "remove")
    chain = handed_on(ResponseStore.chain, "ancestry")
    put_prompt = handed_on(PromptStore.put_prompt, "put_prompt")
    get_prompt = handed_on(PromptStore.get_prompt, "fetch_prompt")
    list_prompts = handed_on(PromptStore.list_prompts, "list_prompts")
    delete_prompt = handed_on(PromptStore.delete_prompt, "remove_prompt")
    spend = handed_on(Spending.spend, "spend")
    sweep = handed_on(Retention.sweep, "sweep")

    @checked
    async def put(
        self,
        tenant: str,
        record: Record,
        *,
        precondition: Precondition = NO_PRECONDITION,
        ttl_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> Stamp:
        write = await self._write(record, precondition, self._lifetime_ms(record, ttl_ms))
        return await self.engine.put(tenant, write, key=idempotency_key)

    @checked
    async def list_items(
        self,
        tenant: str,
        response_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        record = await self.engine.fetch(tenant, response_id)
        return await item_page(record.input_items, f"input item of '{response_id}'", after, limit, order)

    # ---- Sessions ----

    renew_session = handed_on(ResponseStore.renew_session, "renew_lease")
    describe_session = handed_on(ResponseStore.describe_session, "describe_session")

    @checked
    async def acquire_session(
        self,
        tenant: str,
        session_id: str,
        *,
        holder: str,
        ttl_ms: int = limits.LEASE_TTL_MS_DEFAULT,
        wait_ms: int = 0,
    ) -> Lease:
        return await self._sessions.until_free(
            (tenant, session_id),
            lambda: self.engine.acquire_lease(tenant, session_id, holder=holder, ttl_ms=ttl_ms),
            wait_ms=wait_ms,
        )

    @checked
    async def release_session(self, tenant: str, fence: Fence) -> bool:
        released = await self.engine.release_lease(tenant, fence)
        self._sessions.wake_first((tenant, fence.session_id))
        return released

    # ---- Turns ----

    @checked
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        def begin() -> Coroutine[Any, Any, TurnStart]:
            return self.engine.begin_turn(tenant, request, claim_ttl_ms=self._settings.turn_claim_s * 1000)

        if request.session_id is None:
            return await begin()
        most = self._settings.max_session_responses
        if most is not None:
            await self.engine.require_room(tenant, request.session_id, holder=request.holder, most=most)
        return await self._sessions.until_free((tenant, request.session_id), begin, wait_ms=request.wait_ms)

    @checked
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        lifetime_ms = self._lifetime_ms(commit.record, commit.ttl_ms)
        log_end, job = self._log_end(commit), self._queued_job(commit)
        write = await self._write(commit.record, commit.precondition, lifetime_ms)
        write = replace(write, log_end=log_end, job=job)
        async with self._handed_in(tenant, job):
            stamp = await self.engine.commit_turn(tenant, write, commit.fence, key=commit.idempotency_key)
        if commit.fence is not None:
            self._sessions.wake_first((tenant, commit.fence.session_id))
        if log_end is not None:
            self._followers.wake_all((tenant, commit.record.id))
        return stamp

    @checked
    async def abort_turn(
        self,
        tenant: str,
        fence: Fence | None,
        *,
        idempotency_key: str | None = None,
        response_id: str | None = None,
    ) -> None:
        rules.require_owner(idempotency_key, response_id)
        if idempotency_key is not None and response_id is not None:
            await self.engine.forget_key(tenant, idempotency_key, response_id)
        if fence is not None:
            await self.release_session(tenant, fence)

    async def _write(self, record: Record, precondition: Precondition, lifetime_ms: int | None) -> Write:
        size_bytes = work_bytes(record.body) + work_bytes(record.input_items) + work_bytes(record.output_items)
        item_ids, record = await offload.run(
            lambda: (rules.check_content(record), rules.tight(record)), size_bytes=size_bytes
        )
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
        most_s = self._settings.max_ttl_s
        is_in_conversation = is_conversation_id(record.session_id or "")
        return rules.lifetime_ms(ttl_ms, most_s if is_in_conversation else self._settings.default_ttl_s, most_s)
