"""Races between two round trips of one operation: time passes, or somebody else writes."""

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
from antiphon_core.ports.store import Record, Status
from antiphon_store.decisions import keys
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.model import Delete, File, Grow, Index, Kind, Partition, Program, Put, Set
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.values import Founding, Write
from tests.support.rows import SpiedRows

T, LEASE_MS = "t", 1_000

Step = Callable[[StoreEngine, Any], Awaitable[object]]


def between(rows: SpiedRows, step: Callable[[], Awaitable[None]]) -> None:
    """Has something happen before the next program that changes rows."""

    async def before(_partition: Partition, program: Program) -> None:
        if program.changes:
            rows.before_transact = None
            await step()

    rows.before_transact = before


async def a_lease(engine: StoreEngine) -> Any:
    return (await engine.acquire_lease(T, "talk", holder="me", ttl_ms=LEASE_MS)).fence


async def a_job(engine: StoreEngine) -> Job:
    await engine.enqueue_job(T, JobDraft(draft().id, "q", b"{}", 2), retention_ms=60_000)
    job = await claim(engine)
    assert job is not None
    return job


async def claim(engine: StoreEngine) -> Job | None:
    return await engine.claim_job(T, ["q"], holder="me", lease_ttl_ms=LEASE_MS)


async def a_response(engine: StoreEngine) -> str:
    record = draft()
    await engine.put(T, Write(record, ttl_ms=LEASE_MS))
    return record.id


async def a_conversation(engine: StoreEngine) -> str:
    conversation_id = new_id()
    await engine.create_conversation(T, conversation_id, Founding(b"{}", "o", "i", ttl_ms=LEASE_MS))
    return conversation_id


LATE: list[tuple[Callable[[StoreEngine], Awaitable[Any]], Step, type[AntiphonError]]] = [
    (a_lease, lambda e, fence: e.renew_lease(T, fence, ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.heartbeat_job(T, job.fence, lease_ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.settle_job(T, job.fence, JobOutcome.SUCCEEDED, ""), StaleFence),
    (a_response, lambda e, name: e.remove(T, name), ResponseNotFound),
    (a_response, lambda e, name: e.change_status(T, name, Status.FAILED), ResponseNotFound),
    (a_conversation, lambda e, name: e.update_conversation(T, name, b'{"a":"b"}', None), ConversationNotFound),
]


@pytest.mark.parametrize(("made", "step", "error"), LATE)
async def test_what_ends_while_it_is_decided_on_has_ended(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock, made: Any, step: Step, error: type[AntiphonError]
) -> None:
    subject = await made(engine)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    with pytest.raises(error):
        await step(engine, subject)
    assert rows.before_transact is None  # it had come that far


async def test_a_job_that_its_holder_claims_again_too_late_is_a_new_attempt(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    await a_job(engine)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    job = await claim(engine)
    assert job is not None
    assert job.attempt == 2


async def test_of_two_requests_that_find_a_key_free_again_one_has_it(engine: StoreEngine, rows: SpiedRows) -> None:
    gone = draft()
    await engine.begin_turn(T, keyed(gone), claim_ttl_ms=600_000)
    await engine.commit_turn(T, Write(gone), None, key="k")
    await engine.remove(T, gone.id)
    first, second = draft(), draft()

    async def take() -> None:
        assert (await engine.begin_turn(T, keyed(second), claim_ttl_ms=600_000)).running_response_id is None

    between(rows, take)
    start = await engine.begin_turn(T, keyed(first), claim_ttl_ms=600_000)
    assert start.running_response_id == second.id


async def test_a_fork_and_a_deletion_during_a_sweep_keep_the_head(engine: StoreEngine, rows: SpiedRows) -> None:
    record = draft()
    await engine.put(T, Write(record, ttl_ms=60_000))
    session_id = new_session_id(record.id)

    async def fork_and_delete(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await engine.fork(T, ForkSource(None, record.id), session_id)
            await engine.remove(T, record.id)

    rows.after_page = fork_and_delete
    named = File(Index.ENDS, "", f"{Kind.NODE}/{record.id}", 0)
    await rows.rows.transact(Partition(T, tree_tag(record.id) or ""), Program(changes=[named]))
    await engine.sweep(T, limit=10)
    assert rows.after_page is None
    assert (await engine.describe_session(T, session_id)).head_id == record.id


async def test_a_child_and_a_sweep_of_its_parent_see_each_other(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    """The parent ends while a commit behind it is decided on, and a sweep looks at it before the commit is applied."""
    session_id = new_session_id()
    parent = await a_turn(engine, session_id, ttl_ms=LEASE_MS)
    await engine.remove(T, parent.id)
    fence = (await engine.acquire_lease(T, session_id, holder="me", ttl_ms=60_000)).fence
    seen: list[Program] = []

    async def end_before_the_second_try(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Grow) for each in program.changes):
            seen.append(program)
            if len(seen) == 2:
                rows.before_transact = None
                clock.advance(LEASE_MS / 1000)
                await engine.sweep(T, limit=10)

    rows.before_transact = end_before_the_second_try
    with pytest.raises(ResponseNotFound):
        await engine.commit_turn(T, Write(draft(parent, session_id=session_id)), fence)
    assert rows.before_transact is None


async def test_a_child_that_comes_during_a_sweep_keeps_its_parent(engine: StoreEngine, rows: SpiedRows) -> None:
    session_id = new_session_id()
    parent = await a_turn(engine, session_id)
    await engine.remove(T, parent.id)
    fence = (await engine.acquire_lease(T, session_id, holder="me", ttl_ms=60_000)).fence
    child = draft(parent, session_id=session_id)

    async def commit(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await engine.commit_turn(T, Write(child), fence)
            await engine.remove(T, child.id)

    rows.after_page = commit
    await engine.sweep(T, limit=10)
    assert (await engine.begin_turn(T, turn_in(session_id))).history.depth == 2


async def test_a_log_that_begins_anew_is_not_swept_for_the_one_before(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    append = EventAppend(draft().id, 0, 1, b"old")
    await engine.append_events(T, append, fence=None, ttl_ms=LEASE_MS)
    clock.advance(LEASE_MS / 1000)

    async def begin_anew() -> None:
        await engine.append_events(T, replace(append, frames=b"new"), fence=None, ttl_ms=LEASE_MS)

    between(rows, begin_anew)
    await engine.sweep(T, limit=10)
    page = await engine.read_log(T, append.response_id, position=0, max_bytes=100)
    assert [batch.frames for batch in page.batches] == [b"new"]


async def test_a_job_that_time_ended_meanwhile_is_not_cancelled(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    await engine.enqueue_job(T, JobDraft(draft().id, "q", b"{}", 1), retention_ms=60_000)
    job = await claim(engine)
    assert job is not None

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    assert not await engine.cancel_job(T, job.id)
    assert (await engine.describe_job(T, job.id)).state is JobState.FAILED


# ---- Keys ----


async def test_of_two_that_find_a_key_free_again_one_runs(engine: StoreEngine, rows: SpiedRows) -> None:
    gone, first, second = draft(), draft(), draft()
    await a_keyed_commit(engine, gone)
    await engine.remove(T, gone.id)
    writes: list[Program] = []

    async def before_the_second_claim(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Put) and each.ref.kind is Kind.KEY for each in program.changes):
            writes.append(program)
            if len(writes) == 2:
                rows.before_transact = None
                await engine.begin_turn(T, keyed(second), claim_ttl_ms=60_000)

    rows.before_transact = before_the_second_claim
    start = await engine.begin_turn(T, keyed(first), claim_ttl_ms=60_000)
    assert start.running_response_id == second.id


async def test_a_response_that_is_written_while_others_look_for_it_keeps_its_key(
    engine: StoreEngine, rows: SpiedRows
) -> None:
    record = draft()
    await engine.begin_turn(T, keyed(record), claim_ttl_ms=60_000)
    is_bound, may_write = asyncio.Event(), asyncio.Event()

    async def write_late(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Grow) for each in program.changes):
            is_bound.set()
            await may_write.wait()

    rows.before_transact = write_late
    committing = asyncio.create_task(engine.commit_turn(T, Write(record), None, key="k"))
    await is_bound.wait()

    async def write(partition: Partition, _program: Program) -> None:
        if partition.tree == tree_tag(record.id) and not may_write.is_set():
            may_write.set()
            await committing

    rows.after_transact = write  # behind the first look for the response
    start = await engine.begin_turn(T, keyed(draft()), claim_ttl_ms=60_000)
    assert start.running_response_id == record.id


@pytest.mark.parametrize("is_swept", [False, True])
async def test_a_key_whose_response_was_deleted_is_free_swept_or_not(
    engine: StoreEngine, clock: ManualClock, is_swept: bool
) -> None:
    gone = draft()
    await a_keyed_commit(engine, gone)
    await engine.remove(T, gone.id)
    clock.advance(keys.BINDING_MS / 1000)
    if is_swept:
        await engine.sweep(T, limit=10)
    start = await engine.begin_turn(T, keyed(draft()), claim_ttl_ms=60_000)
    assert start.running_response_id is None


async def test_a_refused_try_does_not_free_the_key_of_the_next(engine: StoreEngine, rows: SpiedRows) -> None:
    running = replace(draft(), status=Status.IN_PROGRESS)
    await engine.put(T, Write(running))
    record = draft(running)
    request = keyed(record, previous_response_id=running.id)

    async def try_again(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Delete) and each.ref.kind is Kind.KEY for each in program.changes):
            rows.before_transact = None
            await engine.change_status(T, running.id, Status.COMPLETED)
            await engine.begin_turn(T, request, claim_ttl_ms=60_000)

    rows.before_transact = try_again
    with pytest.raises(PreviousResponseNotReady):
        await engine.begin_turn(T, request, claim_ttl_ms=60_000)
    other = keyed(draft(running), previous_response_id=running.id)
    assert (await engine.begin_turn(T, other, claim_ttl_ms=60_000)).running_response_id == record.id


async def test_a_refused_commit_does_not_unbind_what_its_repetition_wrote(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    session_id = new_session_id()
    record = draft(tag=session_id, session_id=session_id)
    request = keyed(record, session_id=session_id, holder="me", lease_ttl_ms=LEASE_MS)
    start = await engine.begin_turn(T, request, claim_ttl_ms=60_000)
    assert start.lease is not None
    clock.advance(LEASE_MS / 1000)

    async def repeat(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Set) and each.fields.get("bound") == 0 for each in program.changes):
            rows.before_transact = None
            lease = await engine.acquire_lease(T, session_id, holder="me", ttl_ms=LEASE_MS)
            await engine.commit_turn(T, Write(record), lease.fence, key="k")

    rows.before_transact = repeat
    with pytest.raises(StaleFence):
        await engine.commit_turn(T, Write(record), start.lease.fence, key="k")
    assert rows.before_transact is None
    clock.advance(600)
    replay = (await engine.begin_turn(T, keyed(draft()), claim_ttl_ms=60_000)).replay
    assert replay is not None
    assert replay.id == record.id


async def test_a_caller_that_leaves_before_its_turn_began_frees_the_key(engine: StoreEngine, rows: SpiedRows) -> None:
    left, other = draft(), draft()
    is_there = asyncio.Event()

    async def hang(_partition: Partition, program: Program) -> None:
        if any(each.ref.kind is Kind.SESSION for each in program.changes if isinstance(each, Set)):
            rows.before_transact = None
            is_there.set()
            await asyncio.Event().wait()

    rows.before_transact = hang
    session_id = new_session_id()
    request = keyed(left, session_id=session_id, holder="me")
    leaving = asyncio.create_task(engine.begin_turn(T, request, claim_ttl_ms=600_000))
    await is_there.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    start = await engine.begin_turn(T, keyed(other), claim_ttl_ms=600_000)
    assert start.running_response_id is None


async def test_a_single_write_whose_stamp_got_lost_is_not_made_again(engine: StoreEngine, rows: SpiedRows) -> None:
    record = draft()

    async def lose(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Set) and "stamp" in each.fields for each in program.changes):
            rows.before_transact = None
            raise StoreUnavailable("away")

    rows.before_transact = lose
    with pytest.raises(StoreUnavailable):
        await engine.put(T, Write(record), key="k")
    await engine.remove(T, record.id)
    assert (await engine.put(T, Write(record), key="k")).version == 1
    with pytest.raises(ResponseNotFound):
        await engine.fetch(T, record.id)


async def a_turn(engine: StoreEngine, session_id: str, *, ttl_ms: int | None = None) -> Record:
    lease = await engine.acquire_lease(T, session_id, holder="me", ttl_ms=60_000)
    record = draft(tag=session_id, session_id=session_id)
    await engine.commit_turn(T, Write(record, ttl_ms=ttl_ms), lease.fence)
    return record


async def a_keyed_commit(engine: StoreEngine, record: Record) -> None:
    await engine.begin_turn(T, keyed(record), claim_ttl_ms=600_000)
    await engine.commit_turn(T, Write(record), None, key="k")


# ---- Pointers ----


async def test_a_fork_that_fails_leaves_no_pointer(engine: StoreEngine, rows: SpiedRows) -> None:
    with pytest.raises(NotFound):
        await engine.fork(T, ForkSource(None, draft().id), "name")
    written = [each for _, program in rows.programs for each in program.changes]
    assert not [each for each in written if isinstance(each, Put) and each.ref.kind is Kind.POINTER]
    own = draft(tag=f"conv_{session_tag(T, 'name')}{'0' * 32}")
    await engine.put(T, Write(own))
    assert (await engine.fork(T, ForkSource(None, own.id), "name")).head_id == own.id


async def test_a_fork_into_a_name_that_is_used_leaves_no_session(engine: StoreEngine) -> None:
    source = draft()
    await engine.put(T, Write(source))
    await engine.acquire_lease(T, "name", holder="h", ttl_ms=LEASE_MS)
    with pytest.raises(SessionLocked):
        await engine.fork(T, ForkSource(None, source.id), "name")
    await engine.remove(T, source.id)
    assert (await engine.sweep(T, limit=10)).records == 1  # no head keeps it
