"""Approvals: a response asks for them, and the turn with the answer takes each of them once."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from antiphon_core.errors import AntiphonError, ApprovalAlreadyUsed, ApprovalNotFound, InvalidRequest, StaleFence
from antiphon_core.ids import RandomIds, new_item_id
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.jobs import JobDraft, Jobs
from antiphon_core.ports.retention import Retention
from antiphon_core.ports.store import (
    Approval,
    ApprovalAnswer,
    ApprovalDraft,
    Fence,
    Order,
    Precondition,
    Record,
    ResponseStore,
    Status,
    TurnCommit,
    TurnJob,
    TurnRequest,
    TurnStart,
)
from antiphon_store.decisions.approvals import TAKEN_MS
from antiphon_store.testing.event_logs import append_at, write
from antiphon_store.testing.subject import Subject, draft, new_session_id, turn_in

_IDS = RandomIds()


def approvals_of(store: ResponseStore) -> Approvals:
    return cast("Approvals", store)


async def ask(subject: Subject, count: int = 1, parent: Record | None = None) -> tuple[Record, list[ApprovalDraft]]:
    """Commits a response that asks for approvals."""
    record = draft(parent)
    drafts = [ApprovalDraft(new_id(record), b'{"call":%d}' % number) for number in range(count)]
    await subject.store.commit_turn(subject.tenant, TurnCommit(record, approvals=drafts))
    return record, drafts


def new_id(record: Record) -> str:
    return new_item_id(_IDS, "mcpr", relative=record.id)


def answer(parent: Record, drafts: Sequence[ApprovalDraft]) -> TurnRequest:
    """The beginning of a turn that continues `parent` and approves these calls."""
    answers = [ApprovalAnswer(each.id, is_approved=True) for each in drafts]
    return TurnRequest(previous_response_id=parent.id, response_id=draft(parent).id, consumes=answers)


async def begin(subject: Subject, request: TurnRequest) -> TurnStart:
    return await subject.store.begin_turn(subject.tenant, request)


async def open_ids(subject: Subject, order: Order = Order.DESCENDING) -> list[str]:
    page = await approvals_of(subject.peer).list_approvals(subject.tenant, order=order)
    return [each.id for each in page.approvals]


class ApprovalSuite:
    async def test_a_turn_takes_the_approvals_that_it_answers(self, subject: Subject) -> None:
        asker, drafts = await ask(subject, 2)
        start = await begin(subject, answer(asker, drafts))
        assert [each.id for each in start.approvals] == [each.id for each in drafts]
        first = start.approvals[0]
        assert first == Approval(drafts[0].id, asker.id, first.created_at_ms, b'{"call":0}')
        assert start.history.head_id == asker.id
        assert await open_ids(subject) == []

    async def test_an_approval_is_used_once_and_the_error_names_the_response(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        first = answer(asker, drafts)
        await begin(subject, first)
        await begin(subject, first)  # a repeated call takes it for the same response
        with pytest.raises(ApprovalAlreadyUsed) as caught:
            await subject.peer.begin_turn(subject.tenant, answer(asker, drafts))
        assert caught.value.facts["used_by"] == first.response_id

    async def test_of_two_answers_at_once_one_takes_the_approval(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        requests = [answer(asker, drafts) for _ in range(4)]
        stores = [subject.store, subject.peer] * 2
        turns = [store.begin_turn(subject.tenant, each) for store, each in zip(stores, requests, strict=True)]
        ends = await asyncio.gather(*turns, return_exceptions=True)
        winners = [each for each, end in zip(requests, ends, strict=True) if isinstance(end, TurnStart)]
        losers = [end for end in ends if isinstance(end, ApprovalAlreadyUsed)]
        assert len(winners) == 1
        assert [each.facts["used_by"] for each in losers] == [winners[0].response_id] * 3

    async def test_an_older_response_of_the_history_can_have_asked(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        later = await subject.put_line(2, parent=asker)
        start = await begin(subject, answer(later[-1], drafts))
        assert [each.response_id for each in start.approvals] == [asker.id]

    async def test_the_approval_of_another_branch_is_rejected(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        _asker, drafts = await ask(subject, parent=root)
        branch = await subject.put_line(1, parent=root)
        with pytest.raises(InvalidRequest) as caught:
            await begin(subject, answer(branch[-1], drafts))
        assert caught.value.code == "approval_not_in_history"
        assert await open_ids(subject) == [drafts[0].id]

    async def test_an_approval_is_taken_with_all_others_or_not_at_all(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        unknown = ApprovalDraft(new_id(asker), b"{}")
        with pytest.raises(ApprovalNotFound):
            await begin(subject, answer(asker, [*drafts, unknown]))
        assert await open_ids(subject) == [drafts[0].id]

    async def test_the_approval_of_another_tenant_does_not_exist(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        mine = answer(asker, drafts)
        alone = TurnRequest(response_id=mine.response_id, consumes=mine.consumes)
        with pytest.raises(ApprovalNotFound):
            await subject.store.begin_turn(subject.tenant + "-other", alone)
        found = await approvals_of(subject.store).list_approvals(subject.tenant + "-other")
        assert found.approvals == []

    async def test_a_turn_without_history_takes_approvals_of_its_own_tree(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        mine = answer(asker, drafts)
        start = await begin(subject, TurnRequest(response_id=mine.response_id, consumes=mine.consumes))
        assert [each.response_id for each in start.approvals] == [asker.id]
        with pytest.raises(InvalidRequest):
            await begin(subject, TurnRequest(response_id=draft().id, consumes=mine.consumes))

    async def test_a_session_takes_the_approvals_of_its_history(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        asker = draft(session_id=session_id)
        asked = ApprovalDraft(new_id(asker), b"{}")
        commit = TurnCommit(asker, lease.fence, approvals=[asked])
        await subject.store.commit_turn(subject.tenant, commit)
        await subject.commit_in(session_id, asker)
        consumes = [ApprovalAnswer(asked.id, is_approved=False)]
        request = turn_in(session_id, consumes=consumes, response_id=draft(tag=session_id).id)
        assert [each.id for each in (await begin(subject, request)).approvals] == [asked.id]

    async def test_an_approval_that_nobody_holds_is_free_again(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        lost, later = answer(asker, drafts), answer(asker, drafts)
        await begin(subject, lost)
        assert await open_ids(subject) == []
        await subject.elapse(TAKEN_MS + 1)
        assert await open_ids(subject) == [drafts[0].id]
        await begin(subject, later)
        store, ids = approvals_of(subject.store), [drafts[0].id]
        with pytest.raises(ApprovalAlreadyUsed):
            await store.hold_approvals(subject.tenant, ids, str(lost.response_id))
        (held,) = await store.hold_approvals(subject.tenant, ids, str(later.response_id))
        assert (held.id, held.response_id, held.content) == (ids[0], asker.id, b'{"call":0}')
        await subject.elapse(TAKEN_MS + 1)
        assert await open_ids(subject) == []
        with pytest.raises(ApprovalAlreadyUsed):
            await begin(subject, answer(asker, drafts))

    async def test_a_beginning_that_is_repeated_late_leaves_an_approval_held(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        first, ids = answer(asker, drafts), [drafts[0].id]
        await begin(subject, first)
        await approvals_of(subject.store).hold_approvals(subject.tenant, ids, str(first.response_id))
        await begin(subject, first)
        await subject.elapse(TAKEN_MS + 1)
        with pytest.raises(ApprovalAlreadyUsed):
            await begin(subject, answer(asker, drafts))

    async def test_an_approval_is_given_back_by_its_response_only(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        first, ids = answer(asker, drafts), [drafts[0].id]
        await begin(subject, first)
        store = approvals_of(subject.store)
        await store.hold_approvals(subject.tenant, ids, str(first.response_id))
        await store.return_approvals(subject.tenant, ids, draft(asker).id)
        assert await open_ids(subject) == []
        for _ in range(2):
            await store.return_approvals(subject.tenant, ids, str(first.response_id))
            assert await open_ids(subject) == ids
        await begin(subject, answer(asker, drafts))

    async def test_an_approval_whose_call_is_sent_is_never_given_back(self, subject: Subject) -> None:
        asker, drafts = await ask(subject, 2)
        first, ids = answer(asker, drafts), [each.id for each in drafts]
        user, store = str(first.response_id), approvals_of(subject.store)
        await begin(subject, first)
        assert [each.is_sent for each in await store.hold_approvals(subject.tenant, ids, user)] == [False, False]
        for _ in range(2):  # a repeated append changes nothing
            await write(subject, append_at(user, 0, sends=ids[:1]))
        assert [each.is_sent for each in await store.hold_approvals(subject.tenant, ids, user)] == [True, False]
        await store.return_approvals(subject.tenant, ids, user)
        assert await open_ids(subject) == ids[1:]
        with pytest.raises(ApprovalAlreadyUsed):
            await begin(subject, answer(asker, drafts[:1]))

    async def test_a_queued_turn_holds_its_approvals_in_the_step_that_writes_its_job(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        ids, lost, first = [drafts[0].id], answer(asker, drafts), answer(asker, drafts)

        def commit_of(request: TurnRequest) -> TurnCommit:
            record = replace(draft(asker, status=Status.QUEUED), id=str(request.response_id))
            condition = Precondition(version=0)
            return TurnCommit(record, precondition=condition, job=TurnJob(b"{}", 1, 1000), holds=ids)

        await begin(subject, lost)
        await subject.elapse(TAKEN_MS + 1)
        await begin(subject, first)
        with pytest.raises(ApprovalAlreadyUsed):
            await subject.store.commit_turn(subject.tenant, commit_of(lost))
        mine = commit_of(first)
        for _ in range(2):  # a repeated commit changes nothing
            await subject.store.commit_turn(subject.tenant, mine)
        await subject.elapse(TAKEN_MS + 1)
        with pytest.raises(ApprovalAlreadyUsed):
            await begin(subject, answer(asker, drafts))

    async def test_a_call_is_not_sent_without_its_approval(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        first, ids = answer(asker, drafts), [drafts[0].id]
        await begin(subject, first)
        await approvals_of(subject.store).return_approvals(subject.tenant, ids, str(first.response_id))
        with pytest.raises(ApprovalAlreadyUsed):
            await write(subject, append_at(str(first.response_id), 0, sends=ids))
        assert await open_ids(subject) == ids
        with pytest.raises(InvalidRequest):
            await write(subject, append_at(draft().id, 0, sends=ids))

    async def test_approvals_are_given_back_under_the_fence_of_the_job(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        first, ids = answer(asker, drafts), [drafts[0].id]
        user, store = str(first.response_id), approvals_of(subject.store)
        await begin(subject, first)
        job = await cast("Jobs", subject.store).enqueue_job(
            subject.tenant, JobDraft(user, "queue", b"{}", max_attempts=2, holder="first", lease_ttl_ms=1000)
        )
        assert job is not None
        with pytest.raises(StaleFence):
            await store.return_approvals(subject.tenant, ids, user, fence=Fence(user, job.fence.token + 1))
        assert await open_ids(subject) == []
        await store.return_approvals(subject.tenant, ids, user, fence=job.fence)
        assert await open_ids(subject) == ids

    async def test_open_approvals_are_listed_in_pages_by_time(self, subject: Subject) -> None:
        ids = list[str]()
        for _ in range(3):
            _asker, drafts = await ask(subject)
            ids.append(drafts[0].id)
            await subject.elapse(2)
        assert await open_ids(subject, Order.ASCENDING) == ids
        store, found, cursor = approvals_of(subject.store), list[str](), None
        while True:
            page = await store.list_approvals(subject.tenant, limit=1, cursor=cursor)
            found += [each.id for each in page.approvals]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == ids[::-1]

    async def test_approvals_end_with_the_response_that_asks(self, subject: Subject) -> None:
        asker, drafts = await ask(subject)
        used, expiring = draft(), draft()
        asked = [ApprovalDraft(new_id(each), b"{}") for each in (used, expiring)]
        await subject.store.commit_turn(subject.tenant, TurnCommit(used, approvals=asked[:1]))
        await begin(subject, answer(used, asked[:1]))
        await subject.store.commit_turn(subject.tenant, TurnCommit(expiring, ttl_ms=50, approvals=asked[1:]))
        for each in (asker, used):
            await subject.delete(each)
        await subject.elapse(60)
        assert await open_ids(subject) == []
        for parent, its in ((asker, drafts), (used, asked[:1]), (expiring, asked[1:])):
            alone = answer(parent, its)
            with pytest.raises(ApprovalNotFound):
                await begin(subject, TurnRequest(response_id=alone.response_id, consumes=alone.consumes))
        await cast("Retention", subject.store).sweep(subject.tenant)

    async def test_the_record_of_a_queued_turn_asks_when_it_ends(self, subject: Subject) -> None:
        queued = draft(status=Status.QUEUED)
        await subject.put(queued)
        done = Record(queued.id, Status.COMPLETED, queued.body, queued.input_items, queued.output_items)
        drafts = [ApprovalDraft(new_id(done), b"{}")]
        condition = Precondition(statuses=frozenset({Status.QUEUED}))
        commit = TurnCommit(done, precondition=condition, approvals=drafts)
        for _ in range(2):  # a repeated commit changes nothing
            await subject.store.commit_turn(subject.tenant, commit)
        assert await open_ids(subject) == [drafts[0].id]
        await subject.delete(done)
        assert await open_ids(subject) == []
        with pytest.raises(AntiphonError):
            await begin(subject, answer(done, drafts))
