"""Pages of open approvals, and a session that goes on while its history is read."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import item_tag
from antiphon_core.ports.store import ApprovalAnswer, ApprovalDraft, TurnCommit
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import Kind, Partition, Program, Ref
from antiphon_store.service import StoreService
from antiphon_store.testing.approvals import answer, new_id
from antiphon_store.testing.subject import Subject, draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T = "t"


async def ask(store: StoreService, count: int, content: bytes = b"{}") -> list[str]:
    record = draft()
    drafts = [ApprovalDraft(new_id(record), content) for _ in range(count)]
    await store.commit_turn(T, TurnCommit(record, approvals=drafts))
    return [each.id for each in drafts]


async def test_a_page_of_approvals_has_a_limited_size(store: StoreService) -> None:
    ids = await ask(store, 2, b"x" * 60) + await ask(store, 1, b"x" * 60)
    store.approval_page_bytes_max = 100
    found, cursor = list[str](), None
    for _ in ids:
        page = await store.list_approvals(T, cursor=cursor)
        assert len(page.approvals) == 1
        found, cursor = [*found, page.approvals[0].id], page.next_cursor
    assert cursor is None
    assert sorted(found) == sorted(ids)


async def test_the_cursor_of_another_list_is_rejected(store: StoreService) -> None:
    await ask(store, 2)
    page = await store.list_approvals(T, limit=1)
    with pytest.raises(InvalidRequest):
        await store.list_approvals("another", cursor=page.next_cursor)


async def test_a_page_of_approvals_reads_each_tree_once(store: StoreService, rows: SpiedRows) -> None:
    await ask(store, 5)
    await ask(store, 5)
    reads = 0

    async def count(_partition: Partition, _program: Program) -> None:
        nonlocal reads
        reads += 1

    rows.before_transact = count
    assert len((await store.list_approvals(T)).approvals) == 10
    assert reads == 2


async def test_a_damaged_approval_does_not_hide_the_others_of_its_tree(rows: SpiedRows) -> None:
    store = StoreService(seal_rows(rows, SealingKeys.ephemeral()))
    ids = await ask(store, 3)
    stored, ref = rows.rows.trees[Partition(T, item_tag(ids[0]) or "")].rows, Ref(Kind.APPROVAL, ids[0])
    body = stored[ref].body
    stored[ref] = stored[ref]._replace(body=body[:-1] + bytes([body[-1] ^ 1]))
    assert {each.id for each in (await store.list_approvals(T)).approvals} == set(ids[1:])


async def test_a_session_that_goes_on_while_its_history_is_read_is_read_again(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    subject = Subject(store, store, elapse=lambda _ms: store.ready(), tenant=T)
    session_id = new_session_id()
    first = await subject.commit_in(session_id)
    asker = draft(first, session_id=session_id)
    start = await store.begin_turn(T, turn_in(session_id))
    assert start.lease is not None
    asked = ApprovalDraft(new_id(asker), b"{}")
    await store.commit_turn(T, TurnCommit(asker, start.lease.fence, approvals=[asked]))
    newest = await subject.commit_in(session_id, asker)

    async def go_on(_partition: Partition, program: Program) -> None:
        is_history = any(getattr(each, "starts_at_head", False) for each in program.reads) and not program.changes
        if is_history:
            rows.before_transact = None
            await subject.commit_in(session_id, newest)

    rows.before_transact = go_on
    consumes = answer(asker, [asked]).consumes
    request = turn_in(session_id, holder="h", response_id=draft(tag=session_id).id, consumes=consumes)
    assert [each.id for each in (await store.begin_turn(T, request)).approvals] == [asked.id]
    assert rows.before_transact is None


async def test_an_approval_from_outside_of_a_session_is_rejected(store: StoreService) -> None:
    asker = draft()
    inside = draft(tag=asker.id)
    asked = ApprovalDraft(new_id(asker), b"{}")
    await store.commit_turn(T, TurnCommit(asker, approvals=[asked]))
    session_id = new_session_id(asker.id)
    request = turn_in(session_id, response_id=inside.id, consumes=[ApprovalAnswer(asked.id, is_approved=True)])
    with pytest.raises(InvalidRequest):
        await store.begin_turn(T, request)
    assert (await store.describe_session(T, session_id)).lease is None
