"""Lifetimes, and writes that one program cannot decide: occupied ids, crowded sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    LimitExceeded,
    StoreUnavailable,
)
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Record, TurnCommit, TurnRequest
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rows.model import Grow, Partition, Put
from antiphon_store.rows.view import Decision, UnknownRow, View
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T = "t"


async def put(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.put(T, each)


async def remove(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.delete(T, each.id)


async def test_the_id_of_a_deleted_response_is_reusable_once_nothing_needs_it(store: StoreService) -> None:
    root = draft()
    child = draft(root)
    grandchild = draft(child)
    await put(store, root, child, grandchild)
    await remove(store, child)
    other = replace(child, body=b'{"other":1}')
    with pytest.raises(AlreadyExists):
        await put(store, other)
    await remove(store, grandchild)
    await put(store, other)
    assert (await store.get(T, child.id)).body == other.body
    assert (await store.get(T, child.id)).version == 1


class FullRows(MemoryRows):
    """A database without room for programs of more than `room` bytes."""

    room = 0

    async def decide(self, partition: Partition, decision: Decision[Any], **options: Any) -> Any:
        view = View({})
        try:
            decision(view)
        except UnknownRow:
            return await super().decide(partition, decision, **options)
        written = [change for change in view.program().changes if isinstance(change, Put | Grow)]
        if sum(len(change.items) + len(change.body) for change in written) > self.room:
            raise StoreUnavailable("The disk is full.", full=True)
        return await super().decide(partition, decision, **options)


async def test_a_full_store_drops_a_lineage_before_it_rejects_a_turn() -> None:
    rows, record = FullRows(), draft()
    store = StoreService(rows)
    await store.open()
    commit, request = TurnCommit(record, lineage=b"x" * 1_000), TurnRequest(record.id, wants_lineage=True)
    with pytest.raises(StoreUnavailable):
        await store.commit_turn(T, commit)
    rows.room = 1_000
    await store.commit_turn(T, commit)
    assert (await store.get(T, record.id)).body == record.body
    assert (await store.begin_turn(T, request)).history.lineages == ()


async def test_the_id_of_a_deleted_session_head_is_not_reusable(store: StoreService) -> None:
    record = draft()
    await put(store, record)
    await store.fork(T, ForkSource(None, record.id), new_session_id=new_session_id(record.id))
    await remove(store, record)
    with pytest.raises(AlreadyExists):
        await put(store, record)


async def test_deleted_responses_do_not_count_towards_the_session_limit(rows: SpiedRows) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=None, max_session_responses=3))
    session_id = new_session_id()
    records = [draft(session_id=session_id, tag=session_id) for _ in range(5)]
    for place, record in enumerate(records[:3]):
        await store.put(T, record, ttl_ms=60_000 if place else None)
    with pytest.raises(LimitExceeded) as caught:
        await store.put(T, records[3])
    assert caught.value.field == "record.session_id"
    await remove(store, records[0])
    await store.put(T, records[3])
    with pytest.raises(LimitExceeded):
        await store.put(T, records[4])


async def test_expired_responses_do_not_count_towards_the_session_limit(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(max_session_responses=1))
    session_id = new_session_id()
    old, new = (draft(session_id=session_id, tag=session_id) for _ in range(2))
    await store.put(T, old, ttl_ms=1)
    clock.advance(1)
    await store.put(T, new)


async def test_responses_expire_by_the_default_ttl_setting(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=60))
    stamp = await store.put(T, draft())
    assert stamp.expires_at_ms == clock.now_ms() + 60_000
    stamp = await store.commit_turn(T, TurnCommit(draft()))
    assert stamp.expires_at_ms == clock.now_ms() + 60_000


async def test_a_response_without_a_default_ttl_does_not_expire(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=None))
    record = draft()
    assert (await store.put(T, record)).expires_at_ms is None
    clock.advance(100 * 366 * 24 * 3600)
    assert (await store.get(T, record.id)).id == record.id


@pytest.mark.parametrize(("max_ttl_s", "expected_ms"), [(None, None), (90, 90_000)])
async def test_responses_of_a_conversation_ignore_the_default_ttl(
    rows: SpiedRows, clock: ManualClock, max_ttl_s: int | None, expected_ms: int | None
) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=60, max_ttl_s=max_ttl_s))
    conversation_id = new_conversation_id(RandomIds())
    start = await store.begin_turn(T, turn_in(conversation_id))
    assert start.lease is not None
    record = draft(session_id=conversation_id, tag=conversation_id)
    stamp = await store.commit_turn(T, TurnCommit(record, start.lease.fence))
    assert stamp.expires_at_ms == (None if expected_ms is None else clock.now_ms() + expected_ms)
    stamp = await store.put(T, draft(session_id=conversation_id, tag=conversation_id), ttl_ms=1000)
    assert stamp.expires_at_ms == clock.now_ms() + 1000


async def test_the_max_ttl_setting_limits_lifetimes(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(default_ttl_s=30, max_ttl_s=60))
    await store.put(T, draft(), ttl_ms=60_000)
    with pytest.raises(InvalidRequest) as caught:
        await store.put(T, draft(), ttl_ms=60_001)
    assert caught.value.field == "ttl_ms"
