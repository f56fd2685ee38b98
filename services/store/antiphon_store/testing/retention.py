"""Lifetimes: the clock alone decides what can be read, whether or not a sweep has run."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import pytest

from antiphon_core.errors import AlreadyExists, PreviousResponseNotFound, ResponseNotFound
from antiphon_core.ports.store import Precondition, TurnCommit
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import Subject, content, draft, new_session_id

TTL_MS = 500


class RetentionSuite:
    async def test_the_default_lifetime_is_thirty_days(self, subject: Subject) -> None:
        stamp = await subject.put(draft())
        assert stamp.expires_at_ms is not None
        assert stamp.expires_at_ms - stamp.created_at_ms == 30 * 24 * 3600 * 1000

    async def test_an_expired_response_is_unreadable(self, subject: Subject) -> None:
        record = draft()
        stamp = await subject.put(record, ttl_ms=TTL_MS)
        assert stamp.expires_at_ms == stamp.created_at_ms + TTL_MS
        assert (await subject.get(record)).expires_at_ms == stamp.expires_at_ms
        await subject.elapse(TTL_MS)
        with pytest.raises(ResponseNotFound):
            await subject.get(record)
        with pytest.raises(ResponseNotFound):
            await subject.delete(record)
        with pytest.raises(ResponseNotFound):
            await subject.put(draft(record))
        with pytest.raises(PreviousResponseNotFound):
            await subject.begin_after(record)

    async def test_descendants_outlive_their_ancestors(self, subject: Subject) -> None:
        root = draft()
        await subject.put(root, ttl_ms=TTL_MS)
        line = await subject.put_line(2, parent=root)
        await subject.elapse(TTL_MS)
        chain = await subject.store.chain(subject.tenant, line[-1].id)
        assert [content(each) for each in chain] == [content(each) for each in [root, *line]]
        assert await subject.begin_after(line[-1]) == join_history([root, *line])
        with pytest.raises(AlreadyExists):
            await subject.put(root)

    async def test_an_expired_id_without_living_descendants_can_be_written_anew(self, subject: Subject) -> None:
        root = draft()
        await subject.put(root, ttl_ms=TTL_MS)
        children = [draft(root), draft(root)]
        for child in children:
            await subject.put(child, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert (await subject.put(root)).version == 1
        assert (await subject.put(children[0])).version == 1
        assert await subject.begin_after(children[0]) == join_history([root, children[0]])

    async def test_a_replacement_has_a_new_lifetime(self, subject: Subject) -> None:
        record = draft()
        await subject.put(record, ttl_ms=TTL_MS)
        await subject.put(record, ttl_ms=4 * TTL_MS, precondition=Precondition(version=1))
        await subject.elapse(2 * TTL_MS)
        assert (await subject.get(record)).version == 2
        await subject.elapse(2 * TTL_MS)
        with pytest.raises(ResponseNotFound):
            await subject.get(record)

    async def test_an_expired_record_has_no_version(self, subject: Subject) -> None:
        record = draft()
        await subject.put(record, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert (await subject.put(record, precondition=Precondition(version=0))).version == 1

    async def test_a_session_begins_anew_when_its_head_expired(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = await subject.commit_in(session_id, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert (await subject.store.describe_session(subject.tenant, session_id)).head_id is None
        history, lease = await subject.begin_in(session_id)
        assert (history.items, history.depth, history.head_id) == (b"[]", 0, None)
        assert lease.fence.token == 2
        child = draft(head, session_id=session_id)
        with pytest.raises(ResponseNotFound):
            await subject.store.commit_turn(subject.tenant, TurnCommit(child, lease.fence))
