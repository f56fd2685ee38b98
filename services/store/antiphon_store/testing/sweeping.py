"""Sweeping: unreadable rows are reclaimed, up to a limit, and no answer changes."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import ClassVar, cast

import pytest

from antiphon_core import limits
from antiphon_core.errors import ConversationNotFound, InvalidRequest, JobNotFound, LogNotFound, ResponseNotFound
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.conversations import ConversationStore
from antiphon_core.ports.jobs import JobOutcome
from antiphon_core.ports.retention import Retention, Sweeping
from antiphon_core.ports.store import Order, TurnCommit
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing import event_logs, jobs
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import Subject, draft, new_session_id

TTL_MS = 500
DAY_MS = 24 * 3600 * 1000
DEFAULT_TTL_MS = 30 * DAY_MS


async def sweep(subject: Subject, **options: int) -> Sweeping:
    return await cast("Retention", subject.peer).sweep(subject.tenant, **options)


class SweepSuite:
    rows: ClassVar[int] = 70  # of one sweep, which takes candidates 32 at a time

    async def test_a_sweep_without_candidates_reclaims_nothing(self, subject: Subject) -> None:
        await subject.put_line(3)
        assert await sweep(subject) == Sweeping()

    async def test_expired_responses_are_reclaimed(self, subject: Subject) -> None:
        record = draft()
        await subject.put(record, ttl_ms=TTL_MS)
        children = [draft(record) for _ in range(3)]
        for child in children:
            await subject.put(child, ttl_ms=TTL_MS)
        assert await sweep(subject) == Sweeping()
        await subject.elapse(TTL_MS)
        swept = await sweep(subject)
        assert (swept.records, swept.has_more) == (4, False)
        assert swept.size_bytes > 0
        assert await sweep(subject) == Sweeping()
        with pytest.raises(ResponseNotFound):
            await subject.get(record)
        assert (await subject.put(record)).version == 1

    async def test_a_sweep_keeps_ancestors_of_readable_responses(self, subject: Subject) -> None:
        root = draft()
        await subject.put(root, ttl_ms=TTL_MS)
        line = [root, *await subject.put_line(2, parent=root)]
        branch = draft(root)
        await subject.put(branch, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        swept = await sweep(subject)
        assert (swept.records, swept.has_more) == (1, False)  # the branch
        assert await subject.begin_after(line[-1]) == join_history(line)

    async def test_a_sweep_reclaims_a_deleted_parent_with_its_last_child(self, subject: Subject) -> None:
        (parent,) = await subject.put_line(1)
        await subject.put(draft(parent), ttl_ms=TTL_MS)
        await subject.delete(parent)
        await subject.elapse(TTL_MS)
        assert (await sweep(subject)).records == 2

    async def test_a_sweep_keeps_the_deleted_head_of_a_session(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = await subject.commit_in(session_id)
        await subject.put(draft(head), ttl_ms=TTL_MS)
        await subject.delete(head)
        await subject.elapse(TTL_MS)
        assert (await sweep(subject)).records == 1
        history, _lease = await subject.begin_in(session_id)
        assert history.items == join_history([head])

    async def test_logs_and_jobs_are_reclaimed_when_their_time_is_over(self, subject: Subject) -> None:
        log_id = event_logs.new_id()
        await event_logs.write(subject, event_logs.append_at(log_id, 0, 2))
        await event_logs.write(subject, event_logs.append_at(log_id, 2))
        await jobs.enqueue(subject)
        job = await jobs.require_job(subject)
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        waiting = await jobs.enqueue(subject)
        await subject.elapse(DAY_MS - 1)
        assert (await sweep(subject)).records == 1  # the log
        with pytest.raises(LogNotFound):
            await event_logs.read(subject, log_id)
        await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        await subject.elapse(1)
        assert await sweep(subject) == Sweeping(1, len(waiting.payload))
        with pytest.raises(JobNotFound):
            await jobs.settle(subject, job, JobOutcome.SUCCEEDED)
        assert (await jobs.require_job(subject)).id == waiting.id

    async def test_an_unsettled_job_without_attempts_left_is_reclaimed(self, subject: Subject) -> None:
        await jobs.enqueue(subject, max_attempts=1)
        await jobs.require_job(subject)
        await subject.elapse(jobs.TTL_MS + DAY_MS - 1)
        assert await sweep(subject) == Sweeping()
        await subject.elapse(1)
        assert (await sweep(subject)).records == 1

    async def test_an_expired_conversation_is_reclaimed_with_its_items(self, subject: Subject) -> None:
        store = cast("ConversationStore", subject.store)
        items = dumps([{"id": "msg_1", "type": "message"}])
        founded = await store.create_conversation(subject.tenant, metadata=b'{"a":"b"}', items=items, ttl_ms=TTL_MS)
        kept = await store.create_conversation(subject.tenant, items=items)
        await subject.elapse(TTL_MS)
        assert (await sweep(subject)).records >= 1
        assert await sweep(subject) == Sweeping()
        with pytest.raises(ConversationNotFound):
            await store.get_conversation(subject.tenant, founded.id)
        assert (await store.get_conversation(subject.tenant, kept.id)).id == kept.id
        session = await subject.store.describe_session(subject.tenant, founded.id)
        assert session.head_id is None

    async def test_responses_of_a_deleted_conversation_live_for_the_default_time(self, subject: Subject) -> None:
        conversations = cast("ConversationStore", subject.store)
        made = await conversations.create_conversation(subject.tenant)
        first = await subject.commit_in(made.id)
        last = await subject.commit_in(made.id, first)
        assert (await subject.get(first)).expires_at_ms is None
        await conversations.delete_conversation(subject.tenant, made.id)
        await sweep(subject)
        assert (await subject.get(first)).expires_at_ms is not None
        await subject.elapse(DEFAULT_TTL_MS)
        for record in (first, last):
            with pytest.raises(ResponseNotFound):
                await subject.get(record)
        assert (await sweep(subject)).records >= 2

    async def test_responses_of_a_conversation_that_was_created_again_are_kept(self, subject: Subject) -> None:
        conversations = cast("ConversationStore", subject.store)
        made = await conversations.create_conversation(subject.tenant)
        former = await subject.commit_in(made.id)
        await conversations.delete_conversation(subject.tenant, made.id)
        await subject.elapse(1)
        items = dumps([{"id": "msg_1", "type": "message"}])
        await conversations.create_conversation(subject.tenant, conversation_id=made.id, items=items)
        head_id = (await subject.store.describe_session(subject.tenant, made.id)).head_id
        _history, lease = await subject.begin_in(made.id)
        record = draft(tag=made.id, parent_id=head_id, session_id=made.id)
        await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))
        await sweep(subject)
        assert (await subject.get(former)).expires_at_ms is not None
        await subject.elapse(DEFAULT_TTL_MS)
        assert (await subject.get(record)).expires_at_ms is None
        page = await conversations.list_conversation_items(subject.tenant, made.id, order=Order.ASCENDING)
        assert loads(page.items)[0]["id"] == "msg_1"

    async def test_a_sweep_reclaims_at_most_its_limit(self, subject: Subject) -> None:
        root = draft()
        await subject.put(root, ttl_ms=TTL_MS)
        parent = root
        for _ in range(3):
            parent = draft(parent)
            await subject.put(parent, ttl_ms=TTL_MS)
        for position in range(2):
            await event_logs.write(subject, event_logs.append_at(event_logs.new_id(), 0, position + 1))
        await subject.elapse(DAY_MS)
        steps = [await sweep(subject, limit=limit) for limit in (1, 2, 2, 1, 1)]
        assert [(step.records, step.has_more) for step in steps] == [
            (1, True),
            (2, True),
            (2, True),
            (1, False),
            (0, False),
        ]

    async def test_a_sweep_continues_above_a_reclaimed_leaf(self, subject: Subject) -> None:
        line = await subject.put_line(2)
        await subject.put(draft(line[-1]), ttl_ms=TTL_MS)
        for record in line:
            await subject.delete(record)
        await subject.elapse(TTL_MS)
        steps = [await sweep(subject, limit=1) for _ in range(4)]
        assert [step.records for step in steps] == [1, 1, 1, 0]

    async def test_one_sweep_reclaims_many_rows(self, subject: Subject) -> None:
        for _ in range(self.rows):
            await event_logs.write(subject, event_logs.append_at(event_logs.new_id(), 0))
        await subject.elapse(DAY_MS)
        swept = await sweep(subject)
        assert (swept.records, swept.has_more) == (self.rows, False)

    async def test_a_sweep_reclaims_nothing_of_other_tenants(self, subject: Subject) -> None:
        await subject.put(draft(), ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert await sweep(replace(subject, tenant=subject.tenant + "-other")) == Sweeping()
        assert (await sweep(subject)).records == 1

    @pytest.mark.parametrize("limit", [0, -1, limits.SWEEP_ITEMS_MAX + 1])
    async def test_a_sweep_limit_out_of_range_is_rejected(self, subject: Subject, limit: int) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await sweep(subject, limit=limit)
        assert caught.value.field == "limit"


class TenantListSuite:
    """The list of tenants that a sweeper visits. The fixture is `rows`, an open row backend."""

    async def test_each_tenant_with_candidates_is_listed_once(self, rows: RowBackend) -> None:
        store = StoreService(rows)
        tenants = [f"tenant-{secrets.token_hex(4)}" for _ in range(3)]
        for tenant in tenants:
            for _ in range(2):
                await store.put(tenant, draft(), ttl_ms=TTL_MS)
        log_only = f"tenant-{secrets.token_hex(4)}"
        await store.append_events(log_only, event_logs.append_at(event_logs.new_id(), 0))
        found = await store.tenants()
        assert len(found) == len(set(found))
        assert {*tenants, log_only} <= set(found)
