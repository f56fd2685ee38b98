"""What happens between two round trips of one operation: time passes, or somebody else writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, ConversationNotFound, NotFound, ResponseNotFound, StaleFence
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.jobs import Job, JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import NO_PRECONDITION, Status
from antiphon_store.backends.base import Write
from antiphon_store.backends.roles.conversations import Founding
from antiphon_store.engine.facade import RowEngine
from antiphon_store.rows.model import File, Index, Kind, Partition, Program, Put
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft, new_session_id
from tests.support.rows import SpiedRows

T, LEASE_MS = "t", 1_000

Step = Callable[[RowEngine, Any], Awaitable[object]]


def between(rows: SpiedRows, step: Callable[[], Awaitable[None]]) -> None:
    """Has something happen before the next program that changes rows."""

    async def before(_partition: Partition, program: Program) -> None:
        if program.changes:
            rows.before_transact = None
            await step()

    rows.before_transact = before


async def a_lease(engine: RowEngine) -> Any:
    return (await engine.acquire_lease(T, "talk", holder="me", ttl_ms=LEASE_MS)).fence


async def a_job(engine: RowEngine) -> Job:
    await engine.enqueue_job(T, JobDraft(draft().id, "q", b"{}", 2), retention_ms=60_000)
    job = await claim(engine)
    assert job is not None
    return job


async def claim(engine: RowEngine) -> Job | None:
    return await engine.claim_job(T, ["q"], holder="me", lease_ttl_ms=LEASE_MS)


async def a_response(engine: RowEngine) -> str:
    record = draft()
    await engine.put(T, Write(record, ttl_ms=LEASE_MS))
    return record.id


async def a_conversation(engine: RowEngine) -> str:
    conversation_id = new_id()
    await engine.create_conversation(T, Founding(conversation_id, b"{}", "o", "i", ttl_ms=LEASE_MS))
    return conversation_id


LATE: list[tuple[Callable[[RowEngine], Awaitable[Any]], Step, type[AntiphonError]]] = [
    (a_lease, lambda e, fence: e.renew_lease(T, fence, ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.heartbeat_job(T, job.fence, lease_ttl_ms=LEASE_MS), StaleFence),
    (a_job, lambda e, job: e.settle_job(T, job.fence, JobOutcome.SUCCEEDED, ""), StaleFence),
    (a_response, lambda e, name: e.remove(T, name, NO_PRECONDITION), ResponseNotFound),
    (a_response, lambda e, name: e.change_status(T, name, Status.FAILED, NO_PRECONDITION), ResponseNotFound),
    (a_conversation, lambda e, name: e.update_conversation(T, name, b'{"a":"b"}', None), ConversationNotFound),
]


@pytest.mark.parametrize(("made", "step", "error"), LATE)
async def test_what_ends_while_it_is_decided_on_has_ended(
    engine: RowEngine, rows: SpiedRows, clock: ManualClock, made: Any, step: Step, error: type[AntiphonError]
) -> None:
    subject = await made(engine)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    with pytest.raises(error):
        await step(engine, subject)
    assert rows.before_transact is None  # it had come that far


async def test_a_job_that_its_holder_claims_again_too_late_is_a_new_attempt(
    engine: RowEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    await a_job(engine)

    async def end() -> None:
        clock.advance(LEASE_MS / 1000)

    between(rows, end)
    job = await claim(engine)
    assert job is not None
    assert job.attempt == 2


async def test_of_two_requests_that_find_a_key_free_again_one_has_it(engine: RowEngine, rows: SpiedRows) -> None:
    gone = draft()
    await engine.begin_turn_once(T, keyed(gone), claim_ttl_ms=600_000)
    await engine.commit_turn_once(T, Write(gone), None, key="k")
    await engine.remove(T, gone.id, NO_PRECONDITION)
    first, second = draft(), draft()

    async def take() -> None:
        assert (await engine.begin_turn_once(T, keyed(second), claim_ttl_ms=600_000)).running_response_id is None

    between(rows, take)
    start = await engine.begin_turn_once(T, keyed(first), claim_ttl_ms=600_000)
    assert start.running_response_id == second.id


async def test_a_fork_and_a_deletion_during_a_sweep_keep_the_head(engine: RowEngine, rows: SpiedRows) -> None:
    record = draft()
    await engine.put(T, Write(record, ttl_ms=60_000))
    session_id = new_session_id(record.id)

    async def fork_and_delete(index: Index, _key: str) -> None:
        if index is Index.CHILDREN:
            rows.after_page = None
            await engine.fork(T, ForkSource(None, record.id), session_id)
            await engine.remove(T, record.id, NO_PRECONDITION)

    rows.after_page = fork_and_delete
    named = File(Index.ENDS, "", f"{Kind.NODE}/{record.id}", 0)
    await rows.rows.transact(Partition(T, tree_tag(record.id) or ""), Program(changes=[named]))
    await engine.sweep(T, limit=10)
    assert rows.after_page is None
    assert (await engine.describe_session(T, session_id)).head_id == record.id


async def test_a_fork_that_fails_leaves_no_pointer(engine: RowEngine, rows: SpiedRows) -> None:
    with pytest.raises(NotFound):
        await engine.fork(T, ForkSource(None, draft().id), "name")
    written = [each for _, program in rows.programs for each in program.changes]
    assert not [each for each in written if isinstance(each, Put) and each.ref.kind is Kind.POINTER]
    own = draft(tag=f"conv_{session_tag(T, 'name')}{'0' * 32}")
    await engine.put(T, Write(own))
    assert (await engine.fork(T, ForkSource(None, own.id), "name")).head_id == own.id
