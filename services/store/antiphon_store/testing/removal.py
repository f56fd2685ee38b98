"""Delete: the id is unreadable at once, and responses that continue it keep their history."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    PreviousResponseNotFound,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.store import Fence, Precondition, Record, Status, TurnCommit
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import Subject, content, draft, new_session_id


class RemovalSuite:
    async def require_unreadable(self, subject: Subject, record: Record) -> None:
        with pytest.raises(ResponseNotFound):
            await subject.get(record)
        with pytest.raises(ResponseNotFound):
            await subject.store.list_items(subject.tenant, record.id)
        with pytest.raises(ResponseNotFound):
            await subject.store.chain(subject.tenant, record.id)
        with pytest.raises(PreviousResponseNotFound):
            await subject.begin_after(record)
        with pytest.raises(ResponseNotFound):
            await subject.put(draft(record))
        with pytest.raises(ResponseNotFound):
            await subject.delete(record)

    async def test_a_deleted_leaf_is_gone(self, subject: Subject) -> None:
        line = await subject.put_line(2)
        await subject.delete(line[1])
        await self.require_unreadable(subject, line[1])
        assert content(await subject.get(line[0])) == content(line[0])

    async def test_descendants_of_a_deleted_response_keep_working(self, subject: Subject) -> None:
        line = await subject.put_line(4)
        await subject.delete(line[0])
        await subject.delete(line[2])
        for gone in (line[0], line[2]):
            await self.require_unreadable(subject, gone)
        chain = await subject.store.chain(subject.tenant, line[3].id)
        assert [content(each) for each in chain] == [content(each) for each in line]
        assert await subject.begin_after(line[3]) == join_history(line)
        (child,) = await subject.put_line(1, parent=line[3])
        assert await subject.begin_after(child) == join_history([*line, child])

    async def test_deleting_a_missing_response_is_not_found(self, subject: Subject) -> None:
        with pytest.raises(ResponseNotFound):
            await subject.delete(draft())

    async def test_a_deleted_id_without_descendants_can_be_written_again(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        for record in reversed(line):
            await subject.delete(record)
        again = replace(line[0], body=b'{"again":1}')
        assert (await subject.put(again)).version == 1
        assert content(await subject.get(again)) == content(again)
        await subject.put(line[1])
        assert await subject.begin_after(line[1]) == join_history([again, line[1]])

    async def test_a_deleted_id_with_descendants_cannot_be_written_again(self, subject: Subject) -> None:
        root, child = await subject.put_line(2)
        await subject.delete(root)
        for record in (root, replace(root, body=b"{}")):
            with pytest.raises(AlreadyExists):
                await subject.put(record)
        await self.require_unreadable(subject, root)
        await subject.delete(child)
        assert (await subject.put(root)).version == 1

    async def test_a_deleted_id_with_descendants_on_a_branch_stays_taken(self, subject: Subject) -> None:
        root, *_trunk = await subject.put_line(3)
        fork = await subject.put_line(2, parent=root)
        for record in (root, *_trunk, fork[0]):
            await subject.delete(record)
        with pytest.raises(AlreadyExists):
            await subject.put(root)
        assert await subject.begin_after(fork[1]) == join_history([root, *fork])
        await subject.delete(fork[1])
        assert (await subject.put(root)).version == 1
        await subject.put(_trunk[0])
        assert await subject.begin_after(_trunk[0]) == join_history([root, _trunk[0]])

    async def test_a_delete_with_a_failed_precondition_is_rejected(self, subject: Subject) -> None:
        record = draft(status=Status.IN_PROGRESS)
        await subject.put(record)
        refused = {
            VersionMismatch: Precondition(version=2),
            StatusMismatch: Precondition(unless_statuses=frozenset({Status.IN_PROGRESS})),
            StaleFence: Precondition(fence=Fence(new_session_id(beside=record.id), 1)),
        }
        for error, condition in refused.items():
            with pytest.raises(error):
                await subject.store.delete(subject.tenant, record.id, precondition=condition)
        lease = await subject.store.acquire_session(subject.tenant, new_session_id(beside=record.id), holder="a")
        condition = Precondition(version=1, statuses=frozenset({Status.IN_PROGRESS}), fence=lease.fence)
        await subject.store.delete(subject.tenant, record.id, precondition=condition)
        await self.require_unreadable(subject, record)

    async def test_a_session_goes_on_from_its_deleted_head(self, subject: Subject) -> None:
        session_id = new_session_id()
        first = await subject.commit_in(session_id)
        second = await subject.commit_in(session_id, first)
        await subject.delete(second)
        await self.require_unreadable(subject, second)
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert session.head_id == second.id
        history, lease = await subject.begin_in(session_id)
        assert history.items == join_history([first, second])
        assert history.head_id == second.id
        third = draft(second, session_id=session_id)
        stamp = await subject.store.commit_turn(subject.tenant, TurnCommit(third, lease.fence))
        assert stamp.depth == 2
        assert await subject.begin_after(third) == join_history([first, second, third])

    async def test_a_deleted_former_head_id_can_be_written_again(self, subject: Subject) -> None:
        session_id = new_session_id()
        first = await subject.commit_in(session_id)
        await subject.delete(first)
        with pytest.raises(AlreadyExists):
            await subject.put(first)
        await subject.commit_in(session_id)  # another root, so no row needs `first` any more
        assert (await subject.put(first)).version == 1
