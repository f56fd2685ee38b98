"""Every database is empty again after all that a tenant stored was deleted or has expired, and was swept."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StaleFence
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import dumps
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import ApprovalDraft, Fence, Lease, TurnCommit
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from antiphon_store.testing import approvals
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.event_logs import append_at
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.contract.store.test_operations import BACKENDS

DAY_MS = 24 * 3600 * 1000
CONVERSATIONS = 20
PROMPT = f"pmpt_{'7' * 48}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=BACKENDS)
async def rows(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Any]:
    opened = BACKENDS[request.param](clock, tmp_path)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def tenant() -> str:
    return f"tenant-{RandomIds().hex(8)}"


async def counts(rows: Any, tenant: str) -> Counter[str]:
    """The tenant's rows by kind, and its keys of indexes."""
    found: Counter[str] = Counter()
    async for partition in rows.maintenance.partitions(tenant):
        found.update(str(name.ref.kind) for name in await rows.maintenance.names(partition))
    found.update([f"index {key.of}" async for key in rows.maintenance.index_keys(tenant)])
    return found


async def taken(store: StoreService, tenant: str, session_id: str) -> Lease:
    start = await store.begin_turn(tenant, turn_in(session_id))
    assert start.lease is not None
    return start.lease


async def converse(store: StoreService, tenant: str, conversation_id: str) -> Fence:
    """Creates a conversation with an item, a turn that asks for an approval, and a fork. Returns the fence of its
    last lease."""
    items = dumps([{"type": "message"}])
    await store.create_conversation(tenant, conversation_id=conversation_id, items=items)
    lease = await taken(store, tenant, conversation_id)
    state = await store.describe_session(tenant, conversation_id)
    record = draft(tag=conversation_id, parent_id=state.head_id, session_id=conversation_id)
    approval = ApprovalDraft(approvals.new_id(record), b"approval")
    commit = TurnCommit(record, lease.fence, lineage=b"lineage", lineage_key=b"k" * 16, approvals=[approval])
    await store.commit_turn(tenant, commit)
    await store.fork(tenant, ForkSource(conversation_id, None), new_session_id=new_session_id(beside=record.id))
    return lease.fence


async def fill(store: StoreService, tenant: str, conversations: list[str]) -> None:
    for each in conversations:
        await converse(store, tenant, each)
    once, running = draft(), draft()
    await store.begin_turn(tenant, keyed_request(once, key="k"))
    await store.commit_turn(tenant, TurnCommit(once, idempotency_key="k", ttl_ms=DAY_MS))
    await store.put(tenant, running, ttl_ms=DAY_MS)
    await store.append_events(tenant, append_at(running.id, 0))
    await store.put_prompt(tenant, PROMPT, 1, b"prompt")
    job_id = draft().id
    await store.enqueue_job(tenant, JobDraft(job_id, "q", b"payload"))
    job = await store.claim_job(tenant, ["q"], holder="w")
    assert job is not None
    await store.settle_job(tenant, job.fence, JobOutcome.SUCCEEDED)


async def swept(store: StoreService, tenant: str, clock: ManualClock, days: int) -> None:
    for _ in range(days):
        clock.advance(DAY_MS / 1000)
        while (await store.sweep(tenant, limit=1000)).has_more:
            pass


async def test_nothing_is_left_of_a_tenant_that_deleted_all(rows: Any, clock: ManualClock, tenant: str) -> None:
    store = StoreService(rows)
    conversations = [new_id() for _ in range(CONVERSATIONS)]
    await fill(store, tenant, conversations)
    found = await counts(rows, tenant)
    assert found["session"] == 2 * CONVERSATIONS
    assert found["node"] >= 2 * CONVERSATIONS
    assert {*map(str, Kind)} - {"pointer", "quota", "line"} <= found.keys()
    for each in conversations:
        await store.delete_conversation(tenant, each)
    await store.delete_prompt(tenant, PROMPT)
    await swept(store, tenant, clock, days=35)
    assert await counts(rows, tenant) == Counter()
    if isinstance(rows, SqliteRows):
        assert await _trees(rows, tenant) == 0


async def test_tokens_of_a_conversation_that_is_created_again_still_grow(
    rows: Any,
    clock: ManualClock,
    tenant: str,
) -> None:
    store, conversation_id = StoreService(rows), new_id()
    fences: list[Fence] = []
    for days in (0, 1, 40, 40):
        fences.append(await converse(store, tenant, conversation_id))
        await store.delete_conversation(tenant, conversation_id)
        await swept(store, tenant, clock, days)
        clock.advance(-3600.0)  # set back, as after a failover to a server with another clock
    assert [each.token for each in fences] == sorted({each.token for each in fences})
    await store.create_conversation(tenant, conversation_id=conversation_id)
    lease = await taken(store, tenant, conversation_id)
    assert lease.fence.token > fences[-1].token
    for stale in fences:
        with pytest.raises(StaleFence):
            late = draft(tag=conversation_id, session_id=conversation_id)
            await store.commit_turn(tenant, TurnCommit(late, stale))


async def test_sweeping_changes_no_answer_about_a_session(rows: Any, clock: ManualClock, tenant: str) -> None:
    """Two conversations with equal histories, of which one is swept."""
    told = []
    for days_between in (0, 2):
        store, conversation_id = StoreService(rows), new_id()
        await converse(store, tenant, conversation_id)
        await store.delete_conversation(tenant, conversation_id)
        if days_between:
            await swept(store, tenant, clock, days_between)
        else:
            clock.advance(2 * DAY_MS / 1000)
        state = await store.describe_session(tenant, conversation_id)
        told.append((state.head_id, state.last_fence, state.lease))
    assert told == [(None, 0, None)] * 2


async def _trees(rows: SqliteRows, tenant: str) -> int:
    """The number of the tenant's rows in the table of trees."""
    with closing(sqlite3.connect(rows._path)) as connection:
        return int(connection.execute("SELECT count(*) FROM tree WHERE tenant = ?", (tenant,)).fetchone()[0])
