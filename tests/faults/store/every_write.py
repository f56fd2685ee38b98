"""A case for every operation that writes: the data before, the call that writes, and a read that shows the effect.

`tests/faults/store/test_retries.py` runs each case with each fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from antiphon_core.errors import AntiphonError, ConversationNotFound, NotFound, ResponseNotFound
from antiphon_core.limits import LEASE_TTL_MS_MIN
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import DISPATCH_QUEUE, Job, JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest
from antiphon_core.ports.store import (
    ApprovalDraft,
    Fence,
    LogFrames,
    Precondition,
    Record,
    Status,
    TurnCommit,
    TurnJob,
    TurnRequest,
)
from antiphon_store.decisions import jobs as job_decisions
from antiphon_store.rows.model import Kind
from antiphon_store.rows.view import Finish, View, answer
from antiphon_store.testing import approvals, conversations, jobs, prompts
from antiphon_store.testing.event_logs import append_at, frame
from antiphon_store.testing.event_logs import new_id as new_response_id
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.faults.store.conftest import World

FINGERPRINT = b"f" * 32
LATER_S = 0.05  # between a call and its retry


@dataclass(frozen=True, slots=True)
class Scene:
    """`look` reads everything that the write may change. A retry of the executed write raises `gone`, unless `gone` is
    None. `later_s` is 0 for leases, because a later call would get a later expiry."""

    ask: Callable[[], Awaitable[Any]]
    look: Callable[[], Awaitable[Any]]
    gone: type[AntiphonError] | None = None
    later_s: float = LATER_S
    same_answer: bool = True


@dataclass(frozen=True, slots=True)
class WriteCase:
    operation: str
    arrange: Callable[[World], Awaitable[Scene]]


WRITE_CASES: dict[str, WriteCase] = {}


def writes(operation: str) -> Callable[[Callable[[World], Awaitable[Scene]]], Callable[[World], Awaitable[Scene]]]:
    def enter(arrange: Callable[[World], Awaitable[Scene]]) -> Callable[[World], Awaitable[Scene]]:
        WRITE_CASES[f"{operation}: {arrange.__name__.replace('_', ' ')}"] = WriteCase(operation, arrange)
        return arrange

    return enter


# ---- Reads that show effects ----


async def record_of(world: World, record: Record) -> Record | None:
    try:
        return await world.peer.get(world.tenant, record.id)
    except ResponseNotFound:
        return None


async def family(world: World, *records: Record, session_id: str | None = None) -> tuple[object, ...]:
    """Reads the records with their children and chains, and the session."""
    seen: list[object] = []
    for record in records:
        found = await record_of(world, record)
        seen.append(found)
        if found is not None:
            children = await world.peer.children(world.tenant, record.id)
            seen.append([node.id for node in children.nodes])
            seen.append([each.id for each in await world.peer.chain(world.tenant, record.id)])
    if session_id is not None:
        seen.append(await world.peer.describe_session(world.tenant, session_id))
        seen.append([each.id for each in (await world.peer.list_responses(world.tenant, session_id)).records])
    return tuple(seen)


async def log_of(world: World, response_id: str) -> tuple[bytes, bool] | None:
    try:
        async with aclosing(world.peer.read_events(world.tenant, response_id)) as reading:
            batches = [batch async for batch in reading]
    except NotFound:
        return None
    return b"".join(batch.frames for batch in batches), batches[-1].terminal


async def job_of(world: World, job_id: str) -> object:
    try:
        return await world.peer.describe_job(world.tenant, job_id)
    except NotFound:
        return None


async def conversation_of(world: World, conversation_id: str) -> object:
    try:
        found = await world.peer.get_conversation(world.tenant, conversation_id)
        page = await world.peer.list_conversation_items(world.tenant, conversation_id)
    except ConversationNotFound:
        return None
    return found, page.items


# ---- Records ----


@writes("put")
async def a_child(world: World) -> Scene:
    (parent,) = await world.subject.put_line(1)
    child = draft(parent)
    return Scene(partial(world.subject.put, child), partial(family, world, parent, child))


@writes("put")
async def of_the_expected_version(world: World) -> Scene:
    record = draft(status=Status.IN_PROGRESS)
    await world.subject.put(record)
    finished = replace(record, status=Status.COMPLETED, body=b'{"finished":true}')
    condition = Precondition(version=1)
    return Scene(partial(world.subject.put, finished, precondition=condition), partial(family, world, record))


@writes("put")
async def with_a_key(world: World) -> Scene:
    (parent,) = await world.subject.put_line(1)
    child = draft(parent)
    return Scene(partial(world.subject.put, child, idempotency_key="key"), partial(family, world, parent, child))


@writes("delete")
async def in_the_middle_of_a_chain(world: World) -> Scene:
    line = await world.subject.put_line(3)
    return Scene(partial(world.subject.delete, line[1]), partial(family, world, *line), gone=ResponseNotFound)


@writes("update_status")
async def to_completed(world: World) -> Scene:
    record = draft(status=Status.IN_PROGRESS)
    await world.subject.put(record)
    return Scene(
        partial(world.store.update_status, world.tenant, record.id, Status.COMPLETED), partial(family, world, record)
    )


# ---- Sessions and turns ----


@writes("acquire_session")
async def of_a_free_session(world: World) -> Scene:
    session_id = new_session_id()
    ask = partial(world.store.acquire_session, world.tenant, session_id, holder="a")
    return Scene(ask, partial(family, world, session_id=session_id), later_s=0)


@writes("renew_session")
async def for_longer(world: World) -> Scene:
    session_id = new_session_id()
    lease = await world.store.acquire_session(world.tenant, session_id, holder="a")
    ask = partial(world.store.renew_session, world.tenant, lease.fence, ttl_ms=60_000)
    return Scene(ask, partial(family, world, session_id=session_id), later_s=0)


@writes("release_session")
async def by_its_holder(world: World) -> Scene:
    session_id = new_session_id()
    lease = await world.store.acquire_session(world.tenant, session_id, holder="a")
    ask = partial(world.store.release_session, world.tenant, lease.fence)
    return Scene(ask, partial(family, world, session_id=session_id), same_answer=False)


@writes("abort_turn")
async def of_a_turn(world: World) -> Scene:
    session_id = new_session_id()
    _history, lease = await world.subject.begin_in(session_id)
    ask = partial(world.store.abort_turn, world.tenant, lease.fence)
    return Scene(ask, partial(family, world, session_id=session_id), same_answer=False)


@writes("begin_turn")
async def in_a_session(world: World) -> Scene:
    session_id = new_session_id()
    await world.subject.commit_in(session_id)
    ask = partial(world.store.begin_turn, world.tenant, turn_in(session_id))
    return Scene(ask, partial(family, world, session_id=session_id), later_s=0)


@writes("begin_turn")
async def in_a_session_with_a_key(world: World) -> Scene:
    session_id = new_session_id()
    request = turn_in(session_id, idempotency_key="key", fingerprint=FINGERPRINT, response_id=new_response_id())
    ask = partial(world.store.begin_turn, world.tenant, request)
    return Scene(ask, partial(family, world, session_id=session_id), later_s=0)


async def third_turn(world: World, **options: Any) -> Scene:
    """Commits a turn in a session that has two turns already."""
    session_id = new_session_id()
    first = await world.subject.commit_in(session_id)
    second = await world.subject.commit_in(session_id, first)
    _history, lease = await world.subject.begin_in(session_id)
    third = draft(second, session_id=session_id)
    commit = TurnCommit(third, lease.fence, **options)
    return Scene(
        partial(world.store.commit_turn, world.tenant, commit),
        partial(family, world, first, second, third, session_id=session_id),
    )


@writes("commit_turn")
async def under_a_lease(world: World) -> Scene:
    return await third_turn(world)


@writes("commit_turn")
async def after_a_response(world: World) -> Scene:
    (parent,) = await world.subject.put_line(1)
    child = draft(parent)
    return Scene(
        partial(world.store.commit_turn, world.tenant, TurnCommit(child)), partial(family, world, parent, child)
    )


@writes("commit_turn")
async def with_the_end_of_its_log(world: World) -> Scene:
    record = draft()
    await world.store.append_events(world.tenant, append_at(record.id, 0, 3))
    commit = TurnCommit(record, log_frames=LogFrames(3, frame(3) + frame(4)))

    async def look() -> object:
        return await family(world, record), await log_of(world, record.id)

    return Scene(partial(world.store.commit_turn, world.tenant, commit), look)


@writes("commit_turn")
async def under_a_lease_with_a_key(world: World) -> Scene:
    return await third_turn(world, idempotency_key="key")


@writes("abort_turn")
async def of_a_turn_with_a_key(world: World) -> Scene:
    """Beginning a turn of another response under the key shows whether the key is free."""
    mine = TurnRequest(idempotency_key="key", fingerprint=FINGERPRINT, response_id=new_response_id())
    await world.store.begin_turn(world.tenant, mine)
    ask = partial(world.store.abort_turn, world.tenant, None, idempotency_key="key", response_id=mine.response_id)
    other = replace(mine, response_id=new_response_id())

    async def look() -> object:
        start = await world.peer.begin_turn(world.tenant, other)
        if start.running_response_id is None:  # the key was free, and is freed again for the next look
            await world.peer.abort_turn(world.tenant, None, idempotency_key="key", response_id=other.response_id)
        return start.running_response_id

    return Scene(ask, look)


@writes("fork")
async def of_a_session(world: World) -> Scene:
    session_id = new_session_id()
    new = new_session_id(session_id)
    await world.subject.commit_in(session_id)
    ask = partial(world.store.fork, world.tenant, ForkSource(session_id), new_session_id=new)
    return Scene(ask, partial(family, world, session_id=new))


# ---- Event logs ----


@writes("append_events")
async def behind_others(world: World) -> Scene:
    response_id = new_response_id()
    await world.store.append_events(world.tenant, append_at(response_id, 0, 3))
    append: EventAppend = append_at(response_id, 3, 2, terminal=True)
    return Scene(partial(world.store.append_events, world.tenant, append), partial(log_of, world, response_id))


@writes("append_events")
async def that_sends_an_approved_call(world: World) -> Scene:
    asker, drafts = await approvals.ask(world.subject)
    mine, ids = approvals.answer(asker, drafts), [each.id for each in drafts]
    await world.store.begin_turn(world.tenant, mine)
    append: EventAppend = append_at(str(mine.response_id), 0, 1, sends=ids)

    async def look() -> object:
        return await world.peer._trees.change(_is_sent, world.tenant, asker.id, ids[0])

    return Scene(partial(world.store.append_events, world.tenant, append), look)


def _is_sent(view: View, _asker_id: str, approval_id: str) -> Finish[bool]:
    row = view.need(Kind.APPROVAL, approval_id)
    return answer(row is not None and bool(row.fields.get("sent")))


# ---- Jobs ----


async def claimed(world: World) -> tuple[str, Fence]:
    job = await jobs.enqueue(world.subject)
    taken = await jobs.require_job(world.subject, ttl_ms=30_000)
    assert taken.id == job.id
    return job.id, taken.fence


@writes("enqueue_job")
async def a_new_job(world: World) -> Scene:
    job = jobs.new_draft()
    return Scene(partial(world.store.enqueue_job, world.tenant, job), partial(job_of, world, job.id))


@writes("enqueue_job")
async def a_new_job_with_a_holder(world: World) -> Scene:
    job = jobs.new_draft(holder="a", lease_ttl_ms=30_000)
    return Scene(partial(world.store.enqueue_job, world.tenant, job), partial(job_of, world, job.id), later_s=0)


@writes("commit_turn")
async def with_the_end_of_its_job(world: World) -> Scene:
    job_id, fence = await claimed(world)
    record = replace(draft(), id=job_id)
    commit = TurnCommit(record, precondition=Precondition(fence=fence), ends_job=True)

    async def look() -> object:
        return await family(world, record), await job_of(world, job_id)

    return Scene(partial(world.store.commit_turn, world.tenant, commit), look)


@writes("claim_job")
async def the_oldest_job(world: World) -> Scene:
    both = [await jobs.enqueue(world.subject) for _ in range(2)]

    async def look() -> object:
        return [await job_of(world, job.id) for job in both]

    ask = partial(world.store.claim_job, world.tenant, ["q"], holder="a")
    return Scene(ask, look, later_s=0)


@writes("enqueue_job")
async def of_a_tenant_missing_in_the_line(world: World) -> Scene:
    """The job is committed, but its tenant is not in the line of the workers yet."""
    draft = jobs.new_draft(queue=DISPATCH_QUEUE)
    await world.peer._trees.change(_committed, world.tenant, draft.id, draft)

    async def look() -> object:
        return (await world.peer.queue_head(limit=1_000)).due

    return Scene(partial(world.store.enqueue_job, world.tenant, draft), look, later_s=0)


def _committed(view: View, _job_id: str, draft: JobDraft) -> Finish[Job | None]:
    return job_decisions.enqueue(view, draft, retention_ms=60_000)


@writes("heartbeat_job")
async def to_extend_the_lease(world: World) -> Scene:
    """A repeated claim by the holder shows the end of the lease."""
    _job_id, fence = await claimed(world)
    look = partial(world.peer.claim_job, world.tenant, ["q"], holder="a", lease_ttl_ms=LEASE_TTL_MS_MIN)

    ask = partial(world.store.heartbeat_job, world.tenant, fence, lease_ttl_ms=60_000)
    return Scene(ask, look, later_s=0)


@writes("settle_job")
async def succeeded(world: World) -> Scene:
    job_id, fence = await claimed(world)
    ask = partial(world.store.settle_job, world.tenant, fence, JobOutcome.SUCCEEDED, reason="done")
    return Scene(ask, partial(job_of, world, job_id))


@writes("settle_job")
async def for_a_retry(world: World) -> Scene:
    job_id, fence = await claimed(world)
    ask = partial(world.store.settle_job, world.tenant, fence, JobOutcome.RETRY, reason="again")
    return Scene(ask, partial(job_of, world, job_id))


@writes("cancel_job")
async def without_a_holder(world: World) -> Scene:
    job = await jobs.enqueue(world.subject)
    return Scene(partial(world.store.cancel_job, world.tenant, job.id), partial(job_of, world, job.id))


@writes("cancel_job")
async def with_a_holder(world: World) -> Scene:
    job_id, _fence = await claimed(world)
    return Scene(partial(world.store.cancel_job, world.tenant, job_id), partial(job_of, world, job_id))


@writes("commit_turn")
async def of_a_queued_turn(world: World) -> Scene:
    session_id = new_session_id()
    _history, lease = await world.subject.begin_in(session_id)
    record = replace(draft(session_id=session_id), status=Status.QUEUED)
    commit = TurnCommit(
        record,
        precondition=Precondition(version=0, fence=lease.fence),
        log_frames=LogFrames(0, frame(0)),
        job=TurnJob(b"payload", 5, 600_000),
    )

    async def look() -> object:
        seen = await family(world, record, session_id=session_id)
        return seen, await job_of(world, record.id), await log_of(world, record.id)

    return Scene(partial(world.store.commit_turn, world.tenant, commit), look)


# ---- Prompts ----


async def prompt_of(world: World, prompt_id: str) -> object:
    store = prompts.prompts_of(world.peer)
    try:
        found = [await store.get_prompt(world.tenant, prompt_id, version=version) for version in (None, 1)]
    except NotFound:
        return None
    return [(each.version, each.latest_version, each.content) for each in found]


@writes("put_prompt")
async def a_new_prompt(world: World) -> Scene:
    prompt_id = prompts.new_id()
    ask = partial(prompts.prompts_of(world.store).put_prompt, world.tenant, prompt_id, 1, prompts.FIRST)
    return Scene(ask, partial(prompt_of, world, prompt_id))


@writes("put_prompt")
async def a_second_version(world: World) -> Scene:
    made = await prompts.put_prompt(world.subject)
    ask = partial(prompts.prompts_of(world.store).put_prompt, world.tenant, made.id, 2, prompts.SECOND)
    return Scene(ask, partial(prompt_of, world, made.id))


@writes("delete_prompt")
async def with_its_versions(world: World) -> Scene:
    made = await prompts.put_prompt(world.subject, prompts.FIRST, prompts.SECOND)
    ask = partial(prompts.prompts_of(world.store).delete_prompt, world.tenant, made.id)
    return Scene(ask, partial(prompt_of, world, made.id), gone=NotFound)


# ---- Approvals ----


async def open_approvals(world: World) -> object:
    return [each.id for each in (await world.peer.list_approvals(world.tenant)).approvals]


@writes("begin_turn")
async def with_an_approval(world: World) -> Scene:
    asker, drafts = await approvals.ask(world.subject)
    ask = partial(world.store.begin_turn, world.tenant, approvals.answer(asker, drafts))
    return Scene(ask, partial(open_approvals, world))


@writes("commit_turn")
async def that_asks_for_approvals(world: World) -> Scene:
    record = draft()
    commit = TurnCommit(record, approvals=[ApprovalDraft(approvals.new_id(record), b"{}")])
    return Scene(partial(world.store.commit_turn, world.tenant, commit), partial(open_approvals, world))


@writes("hold_approvals")
async def that_were_taken(world: World) -> Scene:
    asker, drafts = await approvals.ask(world.subject)
    mine, ids = approvals.answer(asker, drafts), [each.id for each in drafts]
    await world.store.begin_turn(world.tenant, mine)
    ask = partial(approvals.approvals_of(world.store).hold_approvals, world.tenant, ids, str(mine.response_id))

    async def look() -> object:
        return await world.peer._trees.change(_is_held, world.tenant, asker.id, ids[0])

    return Scene(ask, look)


def _is_held(view: View, _asker_id: str, approval_id: str) -> Finish[bool]:
    row = view.need(Kind.APPROVAL, approval_id)
    return answer(row is not None and row.fields["taken_until"] is None)


@writes("return_approvals")
async def that_were_not_used(world: World) -> Scene:
    asker, drafts = await approvals.ask(world.subject)
    mine, ids = approvals.answer(asker, drafts), [each.id for each in drafts]
    await world.store.begin_turn(world.tenant, mine)
    store = approvals.approvals_of(world.store)
    return Scene(
        partial(store.return_approvals, world.tenant, ids, str(mine.response_id)), partial(open_approvals, world)
    )


# ---- Conversations ----


@writes("create_conversation")
async def with_items(world: World) -> Scene:
    conversation_id, items = conversations.new_id(), conversations.array("i1", "i2")
    ask = partial(world.store.create_conversation, world.tenant, conversation_id=conversation_id, items=items)
    return Scene(ask, partial(conversation_of, world, conversation_id))


@writes("update_conversation")
async def its_metadata(world: World) -> Scene:
    made = await conversations.create(world.subject)
    ask = partial(world.store.update_conversation, world.tenant, made.id, b'{"a":"b"}', expected_version=1)
    return Scene(ask, partial(conversation_of, world, made.id))


@writes("delete_conversation")
async def that_has_items(world: World) -> Scene:
    made = await conversations.create(world.subject, "i1")
    ask = partial(world.store.delete_conversation, world.tenant, made.id)
    return Scene(ask, partial(conversation_of, world, made.id), gone=ConversationNotFound)


@writes("add_conversation_items")
async def under_a_key(world: World) -> Scene:
    made = await conversations.create(world.subject, "i1")
    items = b'[{"type":"message","role":"user","content":"no id"}]'
    ask = partial(world.store.add_conversation_items, world.tenant, made.id, items, idempotency_key="key")
    return Scene(ask, partial(conversation_of, world, made.id))


@writes("add_conversation_items")
async def that_have_ids(world: World) -> Scene:
    made = await conversations.create(world.subject, "i1")
    ask = partial(world.store.add_conversation_items, world.tenant, made.id, conversations.array("i2", "i3"))
    return Scene(ask, partial(conversation_of, world, made.id))


@writes("delete_conversation_item")
async def from_the_middle(world: World) -> Scene:
    made = await conversations.create(world.subject, "i1", "i2", "i3")
    ask = partial(world.store.delete_conversation_item, world.tenant, made.id, "i2")
    return Scene(ask, partial(conversation_of, world, made.id))


# ---- Quotas ----


@writes("take_quota")
async def with_a_stream_slot(world: World) -> Scene:
    """The only idempotent quota request. A hold of two more slots shows how many slots are held."""
    draw = Draw("requests", amount=1, at_least=1, capacity=20, per_minute=20)
    hold = Hold(["place"], 60_000)
    await world.store.take_quota(world.tenant, QuotaRequest([draw], Hold(["old"], 60_000)))

    async def look() -> object:
        answer = await world.peer.take_quota(world.tenant, QuotaRequest([replace(draw, amount=0)]))
        asked = QuotaRequest(hold=Hold(["a", "b"], 100, most=3))  # fits beside one held slot
        is_one_held = (await world.peer.take_quota(world.tenant, asked)).shortage is None
        await world.peer.take_quota(world.tenant, QuotaRequest(release=["a", "b"]))
        return round(answer.levels[0].level), is_one_held

    ask = partial(world.store.take_quota, world.tenant, QuotaRequest([draw], hold, release=["old"]))
    return Scene(ask, look, later_s=0)


# ---- Retention ----


@writes("sweep")
async def of_expired_responses(world: World) -> Scene:
    """The effect of a sweep shows only in the numbers that its answers have."""
    (parent,) = await world.subject.put_line(1)
    for record in (draft(), draft(parent)):
        await world.subject.put(record, ttl_ms=10)
    world.clock.advance(1)

    async def look() -> object:
        return await family(world, parent), sum(answer.records for answer in world.recorder.answers_of("sweep"))

    return Scene(partial(world.store.sweep, world.tenant), look, same_answer=False)
