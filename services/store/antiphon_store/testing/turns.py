"""Turns: one step takes the lease and reads the history, another writes record and head and releases the lease."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    ChainTooLong,
    InvalidRequest,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
)
from antiphon_core.jsons import join_arrays
from antiphon_core.ports.store import (
    UNFINISHED,
    History,
    Precondition,
    Record,
    Status,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import SOON_S, Subject, content, draft, new_session_id, turn_in

TTL_MS = 500
ROUNDS = 20


class TurnSuite:
    async def begin(self, subject: Subject, request: TurnRequest) -> TurnStart:
        return await subject.store.begin_turn(subject.tenant, request)

    async def test_a_turn_without_a_predecessor_begins_with_an_empty_history(self, subject: Subject) -> None:
        assert await self.begin(subject, TurnRequest()) == TurnStart(History(b"[]", 0, None), None)

    async def test_a_turn_continues_a_response_without_a_lease(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        for _ in range(2):
            start = await self.begin(subject, TurnRequest(previous_response_id=line[2].id))
            assert start == TurnStart(History(join_history(line), 3, line[2].id), None)

    @pytest.mark.parametrize("status", sorted(UNFINISHED))
    async def test_a_turn_behind_an_unfinished_response_is_rejected(self, subject: Subject, status: Status) -> None:
        (root,) = await subject.put_line(1)
        running = draft(root, status=status, output_items=b"[]")
        await subject.put(running)
        for request in (TurnRequest(previous_response_id=running.id), TurnRequest(running.id, max_depth=1)):
            with pytest.raises(PreviousResponseNotReady) as caught:
                await self.begin(subject, request)
            assert (caught.value.field, caught.value.code) == ("previous_response_id", "previous_response_not_ready")
            assert caught.value.facts == {"id": running.id, "status": status}
        assert [each.id for each in await subject.store.chain(subject.tenant, running.id)] == [root.id, running.id]
        ended = replace(running, status=Status.COMPLETED, output_items=draft().output_items)
        await subject.put(ended, precondition=Precondition(version=1))
        assert await subject.begin_after(ended) == join_history([root, ended])

    @pytest.mark.parametrize("status", sorted(set(Status) - UNFINISHED))
    async def test_a_response_that_ended_with_any_status_is_continued(self, subject: Subject, status: Status) -> None:
        ended = draft(status=status)
        await subject.put(ended)
        assert await subject.begin_after(ended) == join_history([ended])

    async def test_a_turn_racing_the_end_of_a_response_reads_it_whole_or_is_rejected(self, subject: Subject) -> None:
        async def attempt(running: Record) -> bytes | None:
            try:
                return await subject.begin_after(running)
            except PreviousResponseNotReady:
                return None

        for _ in range(ROUNDS):
            running = draft(status=Status.IN_PROGRESS, output_items=b"[]")
            await subject.put(running)
            ended = replace(running, status=Status.COMPLETED, output_items=draft().output_items)
            attempts = [attempt(running) for _ in range(4)]
            *histories, _stamp = await asyncio.gather(
                *attempts, subject.peer.put(subject.tenant, ended, precondition=Precondition(version=1))
            )
            assert set(histories) <= {None, join_history([ended])}

    async def test_a_commit_without_a_session_is_a_put(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        child = draft(root)
        stamp = await subject.store.commit_turn(subject.tenant, TurnCommit(child, ttl_ms=TTL_MS))
        assert (stamp.version, stamp.depth) == (1, 1)
        assert stamp.expires_at_ms == stamp.created_at_ms + TTL_MS
        assert content(await subject.get(child)) == content(child)
        assert await subject.store.commit_turn(subject.tenant, TurnCommit(child)) == stamp
        with pytest.raises(AlreadyExists):
            await subject.store.commit_turn(subject.tenant, TurnCommit(replace(child, body=b"{}")))
        orphan = draft(draft())
        with pytest.raises(ResponseNotFound):
            await subject.store.commit_turn(subject.tenant, TurnCommit(orphan))

    async def test_each_turn_of_a_session_continues_its_head(self, subject: Subject) -> None:
        session_id = new_session_id()
        line: list[Record] = []
        for number in range(4):
            history, lease = await subject.begin_in(session_id)
            assert lease.fence.token == number + 1
            assert history == History(join_history(line), number, line[-1].id if line else None)
            line.append(draft(line[-1] if line else None, session_id=session_id))
            await subject.store.commit_turn(subject.tenant, TurnCommit(line[-1], lease.fence))
            session = await subject.store.describe_session(subject.tenant, session_id)
            assert (session.head_id, session.last_fence, session.lease) == (line[-1].id, number + 1, None)

    async def test_a_session_with_a_turn_is_locked(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        with pytest.raises(SessionLocked):
            await subject.peer.begin_turn(subject.tenant, turn_in(session_id, holder="holder-b"))
        _history, again = await subject.begin_in(session_id)
        assert again.fence == lease.fence

    async def test_a_second_turn_waits_for_the_first(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        waiting = asyncio.create_task(self.begin(subject, turn_in(session_id, holder="holder-b", wait_ms=20_000)))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        record = draft(session_id=session_id)
        await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))
        second = await asyncio.wait_for(waiting, SOON_S)
        assert second.history.head_id == record.id

    async def test_an_aborted_turn_leaves_nothing(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        for _ in range(2):
            await subject.store.abort_turn(subject.tenant, lease.fence)
        await subject.store.abort_turn(subject.tenant, None)
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.last_fence, session.lease) == (None, 1, None)
        record = draft(session_id=session_id)
        with pytest.raises(StaleFence):
            await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))

    async def test_a_commit_can_be_repeated(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        commit = TurnCommit(draft(session_id=session_id), lease.fence)
        stamp = await subject.store.commit_turn(subject.tenant, commit)
        await subject.elapse(5)
        assert await subject.peer.commit_turn(subject.tenant, commit) == stamp

    async def test_a_late_repeated_commit_does_not_disturb_the_next_turn(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        commit = TurnCommit(draft(session_id=session_id), lease.fence)
        stamp = await subject.store.commit_turn(subject.tenant, commit)
        second = await subject.commit_in(session_id, commit.record)
        running = await self.begin(subject, turn_in(session_id, holder="holder-b"))
        assert await subject.store.commit_turn(subject.tenant, commit) == stamp
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.lease) == (second.id, running.lease)

    async def test_a_commit_of_a_stored_record_still_ends_its_turn(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id)
        record = draft(session_id=session_id)
        await subject.put(record)
        await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.lease) == (record.id, None)

    async def test_a_commit_under_an_expired_lease_writes_nothing(self, subject: Subject) -> None:
        session_id = new_session_id()
        _history, lease = await subject.begin_in(session_id, lease_ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        late = draft(session_id=session_id)
        with pytest.raises(StaleFence):  # expired, and not taken over
            await subject.store.commit_turn(subject.tenant, TurnCommit(late, lease.fence))
        successor = await subject.commit_in(session_id)
        with pytest.raises(StaleFence):
            await subject.store.commit_turn(subject.tenant, TurnCommit(late, lease.fence))
        with pytest.raises(ResponseNotFound):
            await subject.get(late)
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert session.head_id == successor.id

    async def test_a_refused_commit_keeps_lease_and_head(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = await subject.commit_in(session_id)
        _history, lease = await subject.begin_in(session_id)
        orphan = draft(draft(tag=session_id), session_id=session_id)
        with pytest.raises(ResponseNotFound):
            await subject.store.commit_turn(subject.tenant, TurnCommit(orphan, lease.fence))
        taken = replace(head, body=b"{}")
        with pytest.raises(AlreadyExists):
            await subject.store.commit_turn(subject.tenant, TurnCommit(taken, lease.fence))
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.head_id, session.lease) == (head.id, lease)

    async def test_a_turn_whose_head_expired_is_written_as_a_root(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = await subject.commit_in(session_id, ttl_ms=TTL_MS)
        history, lease = await subject.begin_in(session_id)
        await subject.elapse(TTL_MS)
        child = draft(head, session_id=session_id)
        with pytest.raises(ResponseNotFound):
            await subject.store.commit_turn(subject.tenant, TurnCommit(child, lease.fence))
        root = replace(child, parent_id=None, input_items=join_arrays([history.items, child.input_items]))
        await subject.store.commit_turn(subject.tenant, TurnCommit(root, lease.fence))
        after, _lease = await subject.begin_in(session_id)
        assert after == History(join_history([head, child]), 1, root.id)

    async def test_a_turn_with_a_too_long_history_takes_no_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        first = await subject.commit_in(session_id)
        await subject.commit_in(session_id, first)
        for max_depth, max_bytes in ((1, 10_000), (9, 10)):
            with pytest.raises(ChainTooLong):
                await self.begin(subject, turn_in(session_id, max_depth=max_depth, max_bytes=max_bytes))
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.last_fence, session.lease) == (2, None)

    async def test_concurrent_commits_behind_one_response_all_succeed(self, subject: Subject) -> None:
        line = await subject.put_line(2)
        children = [draft(line[-1]) for _ in range(8)]
        stamps = await asyncio.gather(
            *(subject.store.commit_turn(subject.tenant, TurnCommit(child)) for child in children)
        )
        assert {stamp.depth for stamp in stamps} == {2}
        for child in children:
            assert await subject.begin_after(child) == join_history([*line, child])

    async def test_a_turn_with_both_a_response_and_a_session_is_rejected(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        request = TurnRequest(previous_response_id=root.id, session_id=new_session_id(), holder="a")
        with pytest.raises(InvalidRequest) as caught:
            await self.begin(subject, request)
        assert caught.value.code == "mutually_exclusive_parameters"
