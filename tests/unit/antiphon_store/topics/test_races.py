"""Races between two round trips of one operation: time passes, or another client writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AntiphonError,
    ConversationNotFound,
    NotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    StoreUnavailable,
)
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome, JobState
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Record, Status, TurnCommit
from antiphon_store.decisions import keys
from antiphon_store.rows.model import Delete, File, Grow, Index, Kind, Partition, Program, Put, Set
from antiphon_store.service import StoreService
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T, LEASE_MS = "t", 1_000

Step = Callable[[StoreService, Any], Awaitable[object]]


def between(rows: SpiedRows, step: Callable[[], Awaitable[None]]) -> None:
    """Runs `step` before the next program that changes rows."""

    async def before(_partition: Partition, program: Program) -> None:
        if program.changes:
            rows.before_transact = None
            await step()

    rows.before_transact = before


async def a_lease(store: StoreService) -> Any:
    return (await store.acquire_session(T, "talk", holder="me", ttl_ms=LEASE_MS)).fence


async def a_job(store: StoreService) -> Job:
    await store.enqueue_job(T, JobDraft(draft().id, "q", b"{}", 2))
    job = await claim(store)
    assert job is not None
    return job


async def claim(store: StoreService) -> Job | None:
    return await store.claim_job(T, ["q"], holder="me", lease_ttl_ms=LEASE_MS)


async def a_response(store: StoreService) -> str:
    record = draft()
    await store.put(T, record, ttl_ms=LEASE_MS)
    return record.id


async def a_conversation(store: StoreService) -> str:
    conversation_id = new_id()
    await store.create_conversation(T, conversation_id=conversation_id, ttl_ms=LEASE_MS)
    return conversation_id


LATE: list[tuple[Callable[[StoreService], Awaitable[Any]], Step, type[AntiphonError]]] = [
    (a_lease, lambda e, fence: e.renew_session(T, fence, ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.heartbeat_job(T, job.fence, lease_ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.settle_job(T, job.fence, JobOutcome.SUCCEEDED), StaleFence),
    (a_response, lambda e, name: e.delete(T, name), ResponseNotFound),
    (a_response, lambda e, name: e.update_status(T, name, Status.FAILED), ResponseNotFound),
    (a_conversation, lambda e, name: e.update_conversation(T, name, b'{"a":"b"}'), ConversationNotFound),
]


@pytest.mark.parametrize(("made", "step", "error"), LATE)
async def test_an_operation_whose_subject_expires_meanwhile_is_rejected(
    store: StoreService, rows: SpiedRows, clock: ManualClock, made: Any, step: Step, error: type[AntiphonError]
) -> None:
    subject = await made(store)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    with pytest.raises(error):
        await step(store, subject)
    assert rows.before_transact is None  # `end` has run


async def test_a_job_that_its_holder_claims_again_too_late_is_a_new_attempt(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    await a_job(store)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    job = await claim(store)
    assert job is not None
    assert job.attempt == 2


async def test_a_freed_key_taken_before_the_first_claim_leads_to_the_other_turn(
    store: StoreService, rows: SpiedRows
) -> None:
    gone = draft()
    await store.begin_turn(T, keyed_request(gone))
    await store.commit_turn(T, TurnCommit(gone, idempotency_key="k"))
    await store.delete(T, gone.id)
    first, second = draft(), draft()

    async def take() -> None:
        assert (await store.begin_turn(T, keyed_request(second))).running_response_id is None

    between(rows, take)
    start = await store.begin_turn(T, keyed_request(first))
    assert start.running_response_id == second.id


async def test_a_fork_and_a_deletion_during_a_sweep_keep_the_head(store: StoreService, rows: SpiedRows) -> None:
    record = draft()
    await store.put(T, record, ttl_ms=60_000)
    session_id = new_session_id(record.id)

    async def fork_and_delete(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await store.fork(T, ForkSource(None, record.id), new_session_id=session_id)
            await store.delete(T, record.id)

    rows.after_page = fork_and_delete
    named = File(Index.ENDS, "", f"{Kind.NODE}/{record.id}", 0)
    await rows.rows.transact(Partition(T, tree_tag(record.id) or ""), Program(changes=[named]))
    await store.sweep(T, limit=10)
    assert rows.after_page is None
    assert (await store.describe_session(T, session_id)).head_id == record.id


async def test_a_commit_behind_a_parent_that_is_swept_meanwhile_is_rejected(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    """The parent expires during the commit of its child, and a sweep reads the parent before the commit is applied."""
    session_id = new_session_id()
    parent = await a_turn(store, session_id, ttl_ms=LEASE_MS)
    await store.delete(T, parent.id)
    fence = (await store.acquire_session(T, session_id, holder="me", ttl_ms=60_000)).fence
    seen: list[Program] = []

    async def end_before_the_second_try(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Grow) for each in program.changes):
            seen.append(program)
            if len(seen) == 2:
                rows.before_transact = None
                clock.advance(LEASE_MS / 1000)
                await store.sweep(T, limit=10)

    rows.before_transact = end_before_the_second_try
    with pytest.raises(ResponseNotFound):
        await store.commit_turn(T, TurnCommit(draft(parent, session_id=session_id), fence))
    assert rows.before_transact is None


async def test_a_child_committed_during_a_sweep_keeps_its_parent(store: StoreService, rows: SpiedRows) -> None:
    session_id = new_session_id()
    parent = await a_turn(store, session_id)
    await store.delete(T, parent.id)
    fence = (await store.acquire_session(T, session_id, holder="me", ttl_ms=60_000)).fence
    child = draft(parent, session_id=session_id)

    async def commit(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await store.commit_turn(T, TurnCommit(child, fence))
            await store.delete(T, child.id)

    rows.after_page = commit
    await store.sweep(T, limit=10)
    assert (await store.begin_turn(T, turn_in(session_id))).history.depth == 2


async def test_a_log_that_begins_anew_during_a_sweep_is_kept(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    append = EventAppend(draft().id, 0, 1, b"old\n\n")
    await store.append_events(T, append)
    clock.advance(LEASE_MS / 1000)

    async def begin_anew() -> None:
        await store.append_events(T, replace(append, frames=b"new\n\n"))

    between(rows, begin_anew)
    await store.sweep(T, limit=10)
    assert [batch.frames async for batch in store.read_events(T, append.response_id)] == [b"new\n\n"]


async def test_a_job_that_expires_during_its_cancellation_ends_as_failed(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    await store.enqueue_job(T, JobDraft(draft().id, "q", b"{}", 1))
    job = await claim(store)
    assert job is not None

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    assert not await store.cancel_job(T, job.id)
    assert (await store.describe_job(T, job.id)).state is JobState.FAILED


# ---- Keys ----


async def test_a_freed_key_taken_before_the_second_claim_leads_to_the_other_turn(
    store: StoreService, rows: SpiedRows
) -> None:
    gone, first, second = draft(), draft(), draft()
    await a_keyed_commit(store, gone)
    await store.delete(T, gone.id)
    writes: list[Program] = []

    async def before_the_second_claim(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Put) and each.ref.kind is Kind.KEY for each in program.changes):
            writes.append(program)
            if len(writes) == 2:
                rows.before_transact = None
                await store.begin_turn(T, keyed_request(second))

    rows.before_transact = before_the_second_claim
    start = await store.begin_turn(T, keyed_request(first))
    assert start.running_response_id == second.id


async def test_a_response_written_during_a_lookup_of_its_key_keeps_the_key(
    store: StoreService, rows: SpiedRows
) -> None:
    record = draft()
    await store.begin_turn(T, keyed_request(record))
    is_bound, may_write = asyncio.Event(), asyncio.Event()

    async def write_late(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Grow) for each in program.changes):
            is_bound.set()
            await may_write.wait()

    rows.before_transact = write_late
    committing = asyncio.create_task(store.commit_turn(T, TurnCommit(record, idempotency_key="k")))
    await is_bound.wait()

    async def write(partition: Partition, _program: Program) -> None:
        if partition.tree == tree_tag(record.id) and not may_write.is_set():
            may_write.set()
            await committing

    rows.after_transact = write  # after the first read of the response
    start = await store.begin_turn(T, keyed_request(draft()))
    assert start.running_response_id == record.id


@pytest.mark.parametrize("is_swept", [False, True])
async def test_the_key_of_a_deleted_response_is_free_with_and_without_a_sweep(
    store: StoreService, clock: ManualClock, is_swept: bool
) -> None:
    gone = draft()
    await a_keyed_commit(store, gone)
    await store.delete(T, gone.id)
    clock.advance(keys.BINDING_MS / 1000)
    if is_swept:
        await store.sweep(T, limit=10)
    start = await store.begin_turn(T, keyed_request(draft()))
    assert start.running_response_id is None


async def test_a_rejected_begin_does_not_free_the_key_of_its_retry(store: StoreService, rows: SpiedRows) -> None:
    running = replace(draft(), status=Status.IN_PROGRESS)
    await store.put(T, running)
    record = draft(running)
    request = keyed_request(record, previous_response_id=running.id)

    async def try_again(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Delete) and each.ref.kind is Kind.KEY for each in program.changes):
            rows.before_transact = None
            await store.update_status(T, running.id, Status.COMPLETED)
            await store.begin_turn(T, request)

    rows.before_transact = try_again
    with pytest.raises(PreviousResponseNotReady):
        await store.begin_turn(T, request)
    other = keyed_request(draft(running), previous_response_id=running.id)
    assert (await store.begin_turn(T, other)).running_response_id == record.id


async def test_a_rejected_commit_does_not_unbind_the_key_of_its_retry(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    session_id = new_session_id()
    record = draft(tag=session_id, session_id=session_id)
    request = keyed_request(record, session_id=session_id, holder="me", lease_ttl_ms=LEASE_MS)
    start = await store.begin_turn(T, request)
    assert start.lease is not None
    clock.advance(LEASE_MS / 1000)

    async def repeat(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Set) and each.fields.get("bound") == 0 for each in program.changes):
            rows.before_transact = None
            lease = await store.acquire_session(T, session_id, holder="me", ttl_ms=LEASE_MS)
            await store.commit_turn(T, TurnCommit(record, lease.fence, idempotency_key="k"))

    rows.before_transact = repeat
    with pytest.raises(StaleFence):
        await store.commit_turn(T, TurnCommit(record, start.lease.fence, idempotency_key="k"))
    assert rows.before_transact is None
    clock.advance(600)
    replay = (await store.begin_turn(T, keyed_request(draft()))).replay
    assert replay is not None
    assert replay.id == record.id


async def test_a_cancelled_begin_frees_its_key(store: StoreService, rows: SpiedRows) -> None:
    left, other = draft(), draft()
    is_there = asyncio.Event()

    async def hang(_partition: Partition, program: Program) -> None:
        if any(each.ref.kind is Kind.SESSION for each in program.changes if isinstance(each, Set)):
            rows.before_transact = None
            is_there.set()
            await asyncio.Event().wait()

    rows.before_transact = hang
    session_id = new_session_id()
    request = keyed_request(left, session_id=session_id, holder="me")
    leaving = asyncio.create_task(store.begin_turn(T, request))
    await is_there.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    start = await store.begin_turn(T, keyed_request(other))
    assert start.running_response_id is None


async def test_a_single_write_whose_stamp_was_not_stored_is_not_repeated(store: StoreService, rows: SpiedRows) -> None:
    record = draft()

    async def lose(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Set) and "stamp" in each.fields for each in program.changes):
            rows.before_transact = None
            raise StoreUnavailable("away")

    rows.before_transact = lose
    with pytest.raises(StoreUnavailable):
        await store.put(T, record, idempotency_key="k")
    await store.delete(T, record.id)
    assert (await store.put(T, record, idempotency_key="k")).version == 1
    with pytest.raises(ResponseNotFound):
        await store.get(T, record.id)


async def a_turn(store: StoreService, session_id: str, *, ttl_ms: int | None = None) -> Record:
    lease = await store.acquire_session(T, session_id, holder="me", ttl_ms=60_000)
    record = draft(tag=session_id, session_id=session_id)
    await store.commit_turn(T, TurnCommit(record, lease.fence, ttl_ms=ttl_ms))
    return record


async def a_keyed_commit(store: StoreService, record: Record) -> None:
    await store.begin_turn(T, keyed_request(record))
    await store.commit_turn(T, TurnCommit(record, idempotency_key="k"))


# ---- Pointers ----


async def test_a_fork_that_fails_leaves_no_pointer(store: StoreService, rows: SpiedRows) -> None:
    with pytest.raises(NotFound):
        await store.fork(T, ForkSource(None, draft().id), new_session_id="name")
    written = [each for _, program in rows.programs for each in program.changes]
    assert not [each for each in written if isinstance(each, Put) and each.ref.kind is Kind.POINTER]
    own = draft(tag=f"conv_{session_tag(T, 'name')}{'0' * 32}")
    await store.put(T, own)
    assert (await store.fork(T, ForkSource(None, own.id), new_session_id="name")).head_id == own.id


async def test_a_fork_rejected_for_a_used_name_leaves_no_session(store: StoreService) -> None:
    source = draft()
    await store.put(T, source)
    await store.acquire_session(T, "name", holder="h", ttl_ms=LEASE_MS)
    with pytest.raises(SessionLocked):
        await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    await store.delete(T, source.id)
    assert (await store.sweep(T, limit=10)).records == 1  # no head keeps the source
