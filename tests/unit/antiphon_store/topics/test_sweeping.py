"""Sweeping: cascades, candidates that come back, limits, and tenants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, ResponseNotFound
from antiphon_core.ids import RandomIds
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import Fence, Precondition, Record, TurnCommit, TurnRequest
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.decisions import keys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import Get, Index, Kind, Partition, Program, Ref, Span
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.conversations import array, new_id
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.topics.sweeping import CANDIDATE_HIDE_MS
from antiphon_store.topics.trees import tree_of
from tests.support.rows import SpiedRows

T = "t"


async def put_line(store: StoreService, length: int, parent: Record | None = None, **options: Any) -> list[Record]:
    line: list[Record] = []
    for _ in range(length):
        parent = draft(parent)
        await store.put(T, parent, **options)
        line.append(parent)
    return line


async def remove(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.delete(T, each.id)


async def sweep(store: StoreService, *, limit: int = 1000, tenant: str = T) -> Sweeping:
    return await store.sweep(tenant, limit=limit)


async def swept(store: StoreService) -> int:
    return (await sweep(store)).records


async def stored(rows: SpiedRows, *refs: tuple[Kind, str], partition: Partition) -> Sequence[bool]:
    outcome = await rows.rows.transact(partition, Program(reads=[Get(Ref(*each)) for each in refs]))
    return [row is not None for row in outcome.answers]  # type: ignore[union-attr]


async def candidates(rows: SpiedRows) -> list[str]:
    _, entries = await rows.rows.page(Partition(T, ""), Index.ENDS, "", Span(1000))
    return [each.id for each in entries]


async def begin(store: StoreService, session_id: str) -> Fence:
    start = await store.begin_turn(T, turn_in(session_id))
    assert start.lease is not None
    return start.lease.fence


async def turn(store: StoreService, session_id: str, parent: Record | None = None) -> Record:
    fence = await begin(store, session_id)
    record = draft(parent, session_id=session_id, tag=session_id)
    await store.commit_turn(T, TurnCommit(record, fence))
    return record


async def test_sweeping_a_deleted_last_child_reclaims_its_deleted_ancestors(
    store: StoreService, rows: SpiedRows
) -> None:
    root, *middle, leaf = await put_line(store, 5)
    await remove(store, *middle)
    assert await swept(store) == 0
    assert not await candidates(rows)  # nodes become candidates again when their last child goes
    await remove(store, leaf)
    found = await sweep(store)
    assert (found.records, found.has_more) == (4, False)
    assert found.size_bytes > 0
    assert (await store.get(T, root.id)).id == root.id
    assert not await candidates(rows)


async def test_a_deleted_head_is_reclaimed_after_the_session_moves_to_another_branch(store: StoreService) -> None:
    session_id = new_session_id()
    head = await turn(store, session_id)
    await remove(store, head)
    assert await swept(store) == 0
    await turn(store, session_id)
    assert await swept(store) == 1


async def test_a_deleted_head_is_kept_when_the_session_moves_to_its_child(store: StoreService) -> None:
    session_id = new_session_id()
    head = await turn(store, session_id)
    await remove(store, head)
    assert await swept(store) == 0
    child = await turn(store, session_id, head)
    assert await swept(store) == 0
    assert len(await store.chain(T, child.id)) == 2


async def test_a_deleted_response_is_kept_while_it_is_the_head_of_many_forks(store: StoreService) -> None:
    (source,) = await put_line(store, 1)
    for _ in range(120):
        await store.fork(T, ForkSource(None, source.id), new_session_id=f"conv_{source.id[5:21]}{RandomIds().hex(32)}")
    await remove(store, source)
    assert await swept(store) == 0


async def test_a_commit_between_the_looks_of_a_sweep_keeps_its_parent(store: StoreService, rows: SpiedRows) -> None:
    session_id = new_session_id()
    head = await turn(store, session_id)
    await remove(store, head)
    fence = await begin(store, session_id)
    record = draft(head, session_id=session_id)

    async def commit_meanwhile(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await store.commit_turn(T, TurnCommit(record, fence))

    rows.after_page = commit_meanwhile
    await sweep(store)
    assert rows.after_page is None
    assert len(await store.chain(T, record.id)) == 2
    await remove(store, record)
    await turn(store, session_id)
    assert await swept(store) == 2  # both are reclaimed later


async def test_a_deleted_parent_is_reclaimed_after_the_id_of_its_child_is_reused(store: StoreService) -> None:
    parent, child = await put_line(store, 2)
    await remove(store, parent)
    assert await swept(store) == 0
    await remove(store, child)
    await store.put(T, replace(child, parent_id=None))  # removes the old child
    assert await swept(store) == 1


async def test_an_expired_record_is_swept_and_an_extended_one_later(store: StoreService, clock: ManualClock) -> None:
    (short,) = await put_line(store, 1, ttl_ms=1000)
    (longer,) = await put_line(store, 1, ttl_ms=1000)
    await store.put(T, longer, precondition=Precondition(version=1), ttl_ms=5000)
    clock.advance(1)
    assert await swept(store) == 1
    assert (await store.get(T, longer.id)).version == 2
    with pytest.raises(ResponseNotFound):
        await store.get(T, short.id)
    clock.advance(5)
    assert await swept(store) == 1


async def test_a_log_with_an_extended_expiry_is_swept_later(store: StoreService, clock: ManualClock) -> None:
    (record,) = await put_line(store, 1)
    await store.append_events(T, EventAppend(record.id, 0, 1, b"data: {}\n\n"))
    clock.advance(0.9)
    await store.append_events(T, EventAppend(record.id, 1, 1, b"data: {}\n\n"))
    clock.advance(0.5)
    assert await swept(store) == 0
    clock.advance(0.5)
    assert await swept(store) == 1


async def test_a_candidate_left_over_by_a_limit_is_swept_after_its_expiry(
    store: StoreService, clock: ManualClock
) -> None:
    first, second = await put_line(store, 2)
    await remove(store, second)
    await store.append_events(T, EventAppend(first.id, 0, 1, b"data: {}\n\n"))
    clock.advance(0.9)
    await store.append_events(T, EventAppend(first.id, 1, 1, b"data: {}\n\n"))
    clock.advance(0.1)
    assert await sweep(store, limit=1) == Sweeping(1, _size_of(second), has_more=True)
    clock.advance(1)
    assert await swept(store) == 1


def _size_of(record: Record) -> int:
    return len(record.body) + len(record.input_items) + len(record.output_items)


async def test_a_sweep_stops_at_its_limit_in_a_cascade_and_between_candidates(store: StoreService) -> None:
    line = await put_line(store, 5)
    await remove(store, *line)
    others = [(await put_line(store, 1))[0] for _ in range(3)]
    await remove(store, *others)
    found = [await sweep(store, limit=3) for _ in range(3)]
    assert [each.records for each in found] == [3, 3, 2]
    assert [each.has_more for each in found] == [True, True, False]


async def test_a_sweep_that_meets_its_limit_exactly_reports_nothing_left(store: StoreService) -> None:
    line = await put_line(store, 3)
    await remove(store, *line)
    assert await sweep(store, limit=3) == Sweeping(3, sum(map(_size_of, line)))


async def test_an_expired_key_is_swept_without_being_counted(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    record = draft()
    await store.begin_turn(T, keyed_request(record))
    place = keys.partition_of(T, "k")
    clock.advance(2)
    await sweep(store)
    assert await stored(rows, (Kind.KEY, "k"), partition=place) == [True]  # a key is kept for a day
    clock.advance(24 * 3600)
    assert await swept(store) == 0
    assert await stored(rows, (Kind.KEY, "k"), partition=place) == [False]
    assert (await store.begin_turn(T, keyed_request(draft()))).running_response_id is None


async def test_an_expired_conversation_is_swept_with_its_items(store: StoreService, clock: ManualClock) -> None:
    conversation_id = new_id()
    await store.create_conversation(T, conversation_id=conversation_id, items=array("a"), ttl_ms=1000)
    assert await swept(store) == 0
    clock.advance(1)
    assert await swept(store) == 2  # the conversation, and the node of its items
    assert not (await store.resolve_items(T, ["a"])).items


async def test_the_head_of_a_deleted_conversation_is_swept(store: StoreService) -> None:
    conversation_id = new_id()
    await store.create_conversation(T, conversation_id=conversation_id, items=array("a"))
    assert await swept(store) == 0
    await store.delete_conversation(T, conversation_id)
    assert await swept(store) == 1


async def test_a_sweep_touches_one_tenant_only(store: StoreService) -> None:
    (mine,) = await put_line(store, 1)
    theirs = draft()
    await store.put("other", theirs)
    await remove(store, mine)
    await store.delete("other", theirs.id)
    assert await store.tenants() == ["other", T]
    assert await swept(store) == 1
    assert await store.tenants() == ["other"]
    assert (await sweep(store, tenant="other")).records == 1


async def test_concurrent_sweeps_count_each_record_once(store: StoreService, rows: SpiedRows) -> None:
    line = await put_line(store, 5)
    await remove(store, *line)
    found: list[int] = []

    async def sweep_meanwhile(_partition: Partition, _program: Program) -> None:
        rows.before_transact = None
        found.append((await StoreService(rows).sweep(T, limit=100)).records)

    rows.before_transact = sweep_meanwhile
    found.append(await swept(store))
    assert sum(found) + await swept(store) == 5


async def test_a_deleted_parent_stays_in_the_history_of_its_child(store: StoreService) -> None:
    root, child = await put_line(store, 2)
    await remove(store, root)
    await sweep(store)
    start = await store.begin_turn(T, TurnRequest(previous_response_id=child.id))
    assert start.history.depth == 2


def damage(rows: SpiedRows, record: Record) -> None:
    """Cuts the last bytes off the stored items of a response."""
    ref = Ref(Kind.NODE, record.id)
    stored_rows = rows.rows.trees[tree_of(T, record.id)].rows
    stored_rows[ref] = stored_rows[ref]._replace(items=stored_rows[ref].items[:-3])


async def test_a_deleted_response_with_damaged_items_is_reclaimed(store: StoreService, rows: SpiedRows) -> None:
    whole, damaged = draft(), draft()
    for each in (whole, damaged):
        await store.put(T, each)
        await store.delete(T, each.id)
    damage(rows, damaged)
    assert await swept(store) == 2


async def test_expired_sealed_response_that_is_damaged_is_reclaimed(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(seal_rows(rows, SealingKeys.ephemeral()))
    records = [draft() for _ in range(5)]
    for each in records:
        await store.put(T, each, ttl_ms=1000)
    damage(rows, records[2])
    clock.advance(1)
    assert await sweep(store) == Sweeping(5, sum(each.size_bytes for each in records))
    assert await candidates(rows) == []


async def test_expired_rows_of_a_removed_key_are_reclaimed(
    rows: SpiedRows, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    settings = StoreSettings(event_log_ttl_s=1, job_ttl_s=1)
    former = StoreService(seal_rows(rows, SealingKeys("former", {"former": bytes(32)})), settings)
    record, conversation_id = draft(), new_id()
    await former.put(T, record, ttl_ms=1000)
    await former.append_events(T, EventAppend(record.id, 0, 1, b"data: {}\n\n"))
    await former.create_conversation(T, conversation_id=conversation_id, items=array("a"), ttl_ms=1000)
    await former.enqueue_job(T, JobDraft(record.id, "q", b"p"))
    await former.cancel_job(T, record.id)
    clock.advance(1)
    later = StoreService(seal_rows(rows, SealingKeys("later", {"later": bytes(32)})), settings)
    assert await swept(later) == 5  # response, log, conversation with its node, job
    assert await candidates(rows) == []
    logged = [each for each in caplog.records if "'former'" in each.getMessage()]
    assert logged
    assert all(each.__dict__["remedy"] for each in logged)


async def test_row_that_cannot_be_read_is_left_for_later_with_a_remedy(
    store: StoreService, rows: SpiedRows, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not end a sweep that takes so long that it is due again, and then comes before others."""
    unreadable, first = draft(), draft()
    for each in (unreadable, first):
        await store.put(T, each)
        await store.delete(T, each.id)
    await put_line(store, 1, ttl_ms=CANDIDATE_HIDE_MS + 1000)

    async def fail(partition: Partition, program: Program) -> None:
        clock.advance(10)
        if partition == tree_of(T, unreadable.id) and program.reads:
            raise InternalError("An injected fault.")

    rows.before_transact = fail
    assert (await sweep(store, limit=2)).records == 2
    assert await candidates(rows) == [f"{Kind.NODE}/{unreadable.id}"]
    (line,) = [each for each in caplog.records if unreadable.id in each.getMessage()]
    assert line.__dict__["remedy"]
    rows.before_transact = None
    clock.advance(3600)
    assert await swept(store) == 1
