"""Forks: new sessions that share the history of an existing response."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
)
from antiphon_core.ids import tree_tag
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Precondition, Record, Status, TurnCommit
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.lineage_subject import lineage
from antiphon_store.testing.subject import Subject, draft, new_session_id, untagged_session_id


async def fork(subject: Subject, new_session_id: str | None = None, **source: str) -> Fork:
    return await lineage(subject).fork(subject.tenant, ForkSource(**source), new_session_id=new_session_id)


async def head_id(subject: Subject, session_id: str) -> str | None:
    return (await subject.store.describe_session(subject.tenant, session_id)).head_id


async def put_turns(subject: Subject, session_id: str, length: int) -> list[Record]:
    line: list[Record] = []
    for _ in range(length):
        line.append(await subject.commit_in(session_id, line[-1] if line else None))
    return line


class LineageForkSuite:
    async def test_a_fork_of_a_response_goes_on_from_it(self, subject: Subject) -> None:
        line = await subject.put_line(4)
        made = await fork(subject, up_to_response_id=line[1].id)
        assert made.head_id == line[1].id
        history, lease = await subject.begin_in(made.session_id)
        assert history.items == join_history(line[:2])
        child = draft(line[1], session_id=made.session_id)
        await subject.store.commit_turn(subject.tenant, TurnCommit(child, lease.fence))
        assert await subject.begin_after(child) == join_history([*line[:2], child])
        assert await head_id(subject, made.session_id) == child.id

    async def test_a_fork_of_a_session_begins_at_its_head_and_keeps_the_source(self, subject: Subject) -> None:
        source = new_session_id()
        target = new_session_id(source)
        line = await put_turns(subject, source, 3)
        assert await fork(subject, target, session_id=source) == Fork(target, line[-1].id)
        child = await subject.commit_in(target, line[-1])
        assert await head_id(subject, source) == line[-1].id
        assert await head_id(subject, target) == child.id
        own = await subject.commit_in(source, line[-1])
        assert await subject.begin_after(own) == join_history([*line, own])

    async def test_a_generated_fork_id_is_a_conversation_id_of_the_same_tree(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        one, two = [await fork(subject, up_to_response_id=root.id) for _ in range(2)]
        assert one.session_id != two.session_id
        assert one.session_id.startswith("conv_")
        assert tree_tag(one.session_id) == tree_tag(root.id)
        again = await fork(subject, session_id=one.session_id)
        assert tree_tag(again.session_id) == tree_tag(root.id)

    async def test_a_session_without_a_tree_in_its_name_can_be_forked(self, subject: Subject) -> None:
        session_id = untagged_session_id()
        head = await subject.commit_in(session_id)
        made = await fork(subject, session_id=session_id)
        assert await head_id(subject, made.session_id) == head.id
        assert (await subject.commit_in(made.session_id, head)).parent_id == head.id

    async def test_a_response_of_the_named_session_may_be_forked(self, subject: Subject) -> None:
        source = new_session_id()
        line = await put_turns(subject, source, 3)
        made = await fork(subject, session_id=source, up_to_response_id=line[0].id)
        assert made.head_id == line[0].id
        inherited = await fork(subject, session_id=made.session_id, up_to_response_id=line[0].id)
        assert inherited.head_id == line[0].id  # the head of that session, although not made in it

    async def test_a_fork_from_a_response_of_another_session_is_rejected(self, subject: Subject) -> None:
        source = new_session_id()
        other = new_session_id(source)
        await put_turns(subject, source, 1)
        (stranger,) = await put_turns(subject, other, 1)
        with pytest.raises(InvalidRequest) as caught:
            await fork(subject, session_id=source, up_to_response_id=stranger.id)
        assert caught.value.field == "up_to_response_id"

    async def test_a_repeated_fork_returns_the_first_fork(self, subject: Subject) -> None:
        source = new_session_id()
        target = new_session_id(source)
        line = await put_turns(subject, source, 2)
        first = await fork(subject, target, session_id=source)
        assert await fork(subject, target, session_id=source) == first
        await subject.commit_in(source, line[-1])
        child = await subject.commit_in(target, line[-1])
        assert await fork(subject, target, session_id=source) == first
        assert await head_id(subject, target) == child.id

    async def test_a_fork_onto_a_session_in_use_is_rejected(self, subject: Subject) -> None:
        source = new_session_id()
        target = new_session_id(source)
        line = await put_turns(subject, source, 2)
        (used,) = await put_turns(subject, target, 1)
        with pytest.raises(AlreadyExists) as caught:
            await fork(subject, target, session_id=source)
        assert caught.value.facts["id"] == target
        assert await head_id(subject, target) == used.id
        taken = await fork(subject, up_to_response_id=line[0].id)
        with pytest.raises(AlreadyExists):
            await fork(subject, taken.session_id, up_to_response_id=line[1].id)

    async def test_a_fork_onto_a_session_with_a_running_turn_is_rejected(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        target = new_session_id(root.id)
        _history, lease = await subject.begin_in(target)
        with pytest.raises(SessionLocked):
            await fork(subject, target, up_to_response_id=root.id)
        await subject.store.release_session(subject.tenant, lease.fence)
        await fork(subject, target, up_to_response_id=root.id)
        _history, after = await subject.begin_in(target)
        assert after.fence.token == lease.fence.token + 1

    async def test_a_fork_keeps_its_history_after_its_source_is_deleted(self, subject: Subject) -> None:
        source = new_session_id()
        line = await put_turns(subject, source, 3)
        made = await fork(subject, session_id=source)
        for record in reversed(line):
            await subject.delete(record)
        await subject.commit_in(source)  # the source moves on to another root: only the fork keeps the line
        history, _lease = await subject.begin_in(made.session_id)
        assert (history.items, history.head_id) == (join_history(line), line[-1].id)

    async def test_a_deleted_head_can_be_forked_by_its_session_alone(self, subject: Subject) -> None:
        source = new_session_id()
        line = await put_turns(subject, source, 2)
        await subject.delete(line[-1])
        assert (await fork(subject, session_id=source)).head_id == line[-1].id
        with pytest.raises(ResponseNotFound):
            await fork(subject, up_to_response_id=line[-1].id)

    async def test_a_response_that_runs_is_not_forked(self, subject: Subject) -> None:
        source = new_session_id()
        target = new_session_id(source)
        (head,) = await put_turns(subject, source, 1)
        running = draft(head, session_id=source, status=Status.QUEUED)
        await subject.put(running)
        for named in ({"up_to_response_id": running.id}, {"up_to_response_id": running.id, "session_id": source}):
            with pytest.raises(PreviousResponseNotReady) as caught:
                await fork(subject, target, **named)
            assert caught.value.field == "up_to_response_id"
            assert caught.value.facts == {"id": running.id, "status": "queued"}
        assert (await fork(subject, session_id=source)).head_id == head.id
        await subject.put(replace(running, status=Status.FAILED), precondition=Precondition(version=1))
        assert (await fork(subject, target, up_to_response_id=running.id)).head_id == running.id

    async def test_a_fork_without_a_readable_source_is_not_found(self, subject: Subject) -> None:
        with pytest.raises(NotFound) as caught:
            await fork(subject, session_id=new_session_id())
        assert caught.value.field == "session_id"
        with pytest.raises(ResponseNotFound):
            await fork(subject, up_to_response_id=draft().id)
        session_id = new_session_id()
        await subject.commit_in(session_id, ttl_ms=1000)
        await subject.elapse(1100)
        with pytest.raises(NotFound):
            await fork(subject, session_id=session_id)

    async def test_a_session_whose_head_expired_may_become_a_fork(self, subject: Subject) -> None:
        target = new_session_id()
        await subject.commit_in(target, ttl_ms=1000)
        await subject.elapse(1100)
        root = draft(tag=target)
        await subject.put(root)
        await fork(subject, target, up_to_response_id=root.id)
        assert await head_id(subject, target) == root.id

    async def test_a_fork_id_of_another_tree_is_rejected(self, subject: Subject) -> None:
        session_id = new_session_id()
        await subject.commit_in(session_id)
        with pytest.raises(InvalidRequest) as caught:
            await fork(subject, "conv_" + "0" * 48, session_id=session_id)
        assert caught.value.field == "new_session_id"

    async def test_a_fork_of_another_tenants_data_is_not_found(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = await subject.commit_in(session_id)
        stranger = replace(subject, tenant=subject.tenant + "-other")
        with pytest.raises(NotFound):
            await fork(stranger, session_id=session_id)
        with pytest.raises(ResponseNotFound):
            await fork(stranger, up_to_response_id=head.id)
        (theirs,) = await stranger.put_line(1)
        target = new_session_id(theirs.id)
        await fork(stranger, target, up_to_response_id=theirs.id)
        assert await head_id(subject, target) is None
