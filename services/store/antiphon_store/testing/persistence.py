"""Acknowledged data survives the store. The fixture is `reopen`, which opens a new store over the same data after the
previous one was closed; the test closes it."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from antiphon_core.errors import AlreadyExists
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.jobs import JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import TurnCommit
from antiphon_store.service import StoreService
from antiphon_store.testing import conversations, event_logs, idempotency, jobs
from antiphon_store.testing.lineage_subject import lineage
from antiphon_store.testing.subject import Subject, draft, new_session_id

Reopen = Callable[[], Awaitable[StoreService]]
LEASE_MS = 30_000


@asynccontextmanager
async def life(reopen: Reopen, tenant: str) -> AsyncIterator[Subject]:
    """Opens the store, and closes it at the end."""
    store = await reopen()
    yield Subject(store=store, peer=store, elapse=_no_clock, tenant=tenant)
    await store.close()


async def _no_clock(_milliseconds: int) -> None:
    raise NotImplementedError("nothing here depends on time")


class PersistenceSuite:
    @pytest.fixture
    def tenant(self) -> str:
        return f"tenant-{secrets.token_hex(4)}"

    async def test_records_and_sessions_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        store = await reopen()
        session_id = new_session_id()
        root = draft(session_id=session_id)
        lease = await store.acquire_session(tenant, session_id, holder="h", ttl_ms=LEASE_MS)
        await store.commit_turn(tenant, TurnCommit(root, lease.fence))
        child = draft(root)
        await store.put(tenant, child)
        running = await store.acquire_session(tenant, session_id, holder="h", ttl_ms=LEASE_MS)
        await store.close()

        store = await reopen()
        assert [each.id for each in await store.chain(tenant, child.id)] == [root.id, child.id]
        session = await store.describe_session(tenant, session_id)
        assert (session.head_id, session.last_fence, session.lease) == (root.id, 2, running)
        assert await store.release_session(tenant, running.fence)
        await store.close()

        store = await reopen()
        assert (await store.acquire_session(tenant, session_id, holder="h", ttl_ms=LEASE_MS)).fence.token == 3
        await store.close()

    async def test_event_logs_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        response_id = event_logs.new_id()
        first, end = event_logs.append_at(response_id, 0, 3), event_logs.append_at(response_id, 3, terminal=True)
        async with life(reopen, tenant) as subject:
            await event_logs.write(subject, first)
        async with life(reopen, tenant) as subject:
            assert event_logs.frames_of(await event_logs.read(subject, response_id)) == first.frames
            await event_logs.write(subject, end)
        async with life(reopen, tenant) as subject:
            batches = await event_logs.read(subject, response_id, follow=True)
        assert (event_logs.frames_of(batches), batches[-1].terminal) == (first.frames + end.frames, True)

    async def test_jobs_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        async with life(reopen, tenant) as subject:
            queued = await jobs.enqueue(subject)
            held = await jobs.require_job(subject, ttl_ms=LEASE_MS)
            waiting = await jobs.enqueue(subject)
        assert held.id == queued.id
        async with life(reopen, tenant) as subject:
            assert await jobs.require_job(subject, holder="b") != held
            await jobs.settle(subject, held, JobOutcome.SUCCEEDED)
        async with life(reopen, tenant) as subject:
            assert not await jobs.jobs_of(subject.store).cancel_job(subject.tenant, held.id)
            changed = jobs.new_draft("other", id=waiting.id)
            with pytest.raises(AlreadyExists):
                await jobs.jobs_of(subject.store).enqueue_job(subject.tenant, changed)

    async def test_conversations_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        async with life(reopen, tenant) as subject:
            made = await conversations.create(subject, "a", "b", metadata=b'{"topic":"x"}')
            await conversations.add(subject, made.id, "c")
        async with life(reopen, tenant) as subject:
            talks = conversations.talks_of(subject.store)
            assert await talks.get_conversation(subject.tenant, made.id) == made
            await talks.delete_conversation_item(subject.tenant, made.id, "b")
        async with life(reopen, tenant) as subject:
            assert await conversations.context(subject, made.id) == ["a", "c"]

    async def test_idempotency_keys_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        record, other = draft(), draft()
        async with life(reopen, tenant) as subject:
            assert idempotency.runs(await idempotency.begin(subject, idempotency.keyed_request(record)))
        async with life(reopen, tenant) as subject:
            again = await idempotency.begin(subject, idempotency.keyed_request(other))
            assert again.running_response_id == record.id
            await idempotency.commit(subject, record)
        async with life(reopen, tenant) as subject:
            replayed = await idempotency.begin(subject, idempotency.keyed_request(other))
        assert replayed.replay is not None
        assert replayed.replay.id == record.id

    async def test_forks_survive_a_restart(self, reopen: Reopen, tenant: str) -> None:
        source = new_session_id()
        target = new_session_id(source)
        async with life(reopen, tenant) as subject:
            root = await subject.commit_in(source)
            forked = await lineage(subject).fork(subject.tenant, ForkSource(source), new_session_id=target)
            await subject.commit_in(source, root)
        async with life(reopen, tenant) as subject:
            again = await lineage(subject).fork(subject.tenant, ForkSource(source), new_session_id=target)
            assert again == forked
            _history, lease = await subject.begin_in(target)
            child = draft(root, session_id=target)
            await subject.store.commit_turn(subject.tenant, TurnCommit(child, lease.fence))
        async with life(reopen, tenant) as subject:
            chain = await subject.store.chain(subject.tenant, child.id)
        assert [each.id for each in chain] == [root.id, child.id]

    async def test_items_are_found_by_id_after_a_restart(self, reopen: Reopen, tenant: str) -> None:
        record = draft()
        item_ids = [loads(record.output_items)[0]["id"], "client-1"]
        record = replace(record, input_items=dumps([{"id": item_ids[1], "type": "message", "content": "ü"}]))
        async with life(reopen, tenant) as subject:
            await subject.put(record)
        async with life(reopen, tenant) as subject:
            found = await lineage(subject).resolve_items(subject.tenant, item_ids)
        assert [each.response_id for each in found.items] == [record.id, record.id]
