"""Replacement of a stored record under preconditions."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import InvalidRequest, StaleFence, StatusMismatch, VersionMismatch
from antiphon_core.ports.store import Fence, Precondition, Record, Status
from antiphon_store.testing.subject import Subject, content, draft, new_session_id


def finished_record(record: Record) -> Record:
    return replace(record, status=Status.COMPLETED, body=b'{"finished":true}')


async def put_running(subject: Subject) -> Record:
    record = draft(status=Status.IN_PROGRESS)
    await subject.put(record)
    return record


class ReplacementSuite:
    async def test_a_replacement_of_the_expected_version_is_written(self, subject: Subject) -> None:
        record = await put_running(subject)
        born = await subject.get(record)
        await subject.elapse(5)
        stamp = await subject.put(finished_record(record), precondition=Precondition(version=1))
        read = await subject.get(record)
        assert content(read) == content(finished_record(record))
        assert stamp.version == read.version == 2
        assert read.created_at_ms == born.created_at_ms < read.updated_at_ms == stamp.updated_at_ms

    async def test_a_replaced_response_keeps_its_position_in_the_tree(self, subject: Subject) -> None:
        root, middle, tip = await subject.put_line(3)
        changed = replace(middle, output_items=b'[{"id":"msg_new"}]')
        stamp = await subject.put(changed, precondition=Precondition(version=1))
        assert stamp.depth == 1
        chain = await subject.store.chain(subject.tenant, tip.id)
        assert [content(each) for each in chain] == [content(root), content(changed), content(tip)]

    async def test_replacing_can_be_repeated(self, subject: Subject) -> None:
        record = await put_running(subject)
        stamp = await subject.put(finished_record(record), precondition=Precondition(version=1))
        await subject.elapse(5)
        assert await subject.put(finished_record(record), precondition=Precondition(version=1)) == stamp
        by_status = Precondition(statuses=frozenset({Status.IN_PROGRESS}))
        assert await subject.put(finished_record(record), precondition=by_status) == stamp
        assert stamp.version == 2

    async def test_the_same_content_at_the_expected_version_is_a_new_version(self, subject: Subject) -> None:
        record = await put_running(subject)
        for version in (1, 2):
            stamp = await subject.put(record, precondition=Precondition(version=version))
            assert stamp.version == version + 1

    async def test_a_replacement_of_another_version_is_rejected(self, subject: Subject) -> None:
        record = await put_running(subject)
        for version in (2, 7):
            with pytest.raises(VersionMismatch) as caught:
                await subject.put(finished_record(record), precondition=Precondition(version=version))
            assert caught.value.facts["actual"] == "1"
        assert content(await subject.get(record)) == content(record)

    async def test_a_replacement_with_a_matching_status_is_written(self, subject: Subject) -> None:
        record = await put_running(subject)
        condition = Precondition(
            statuses=frozenset({Status.QUEUED, Status.IN_PROGRESS}), unless_statuses=frozenset({Status.CANCELLED})
        )
        assert (await subject.put(finished_record(record), precondition=condition)).version == 2

    @pytest.mark.parametrize(
        "condition",
        [
            Precondition(statuses=frozenset({Status.QUEUED})),
            Precondition(unless_statuses=frozenset({Status.IN_PROGRESS, Status.CANCELLED})),
            Precondition(version=1, statuses=frozenset({Status.QUEUED})),
        ],
    )
    async def test_a_replacement_with_another_status_is_rejected(
        self, subject: Subject, condition: Precondition
    ) -> None:
        record = await put_running(subject)
        with pytest.raises(StatusMismatch) as caught:
            await subject.put(finished_record(record), precondition=condition)
        assert caught.value.facts["actual"] == "in_progress"
        assert (await subject.get(record)).version == 1

    async def test_a_precondition_on_a_missing_record_is_rejected(self, subject: Subject) -> None:
        record = draft()
        with pytest.raises(VersionMismatch):
            await subject.put(record, precondition=Precondition(version=1))
        for condition in (
            Precondition(statuses=frozenset({Status.QUEUED})),
            Precondition(unless_statuses=frozenset({Status.QUEUED})),
        ):
            with pytest.raises(StatusMismatch) as caught:
                await subject.put(record, precondition=condition)
            assert caught.value.facts["actual"] == "absent"

    async def test_the_parent_cannot_change(self, subject: Subject) -> None:
        _root, second = await subject.put_line(2)
        with pytest.raises(InvalidRequest) as caught:
            await subject.put(replace(second, parent_id=None), precondition=Precondition(version=1))
        assert caught.value.field == "record.parent_id"

    async def test_a_put_under_a_living_fence_is_written(self, subject: Subject) -> None:
        lease = await subject.store.acquire_session(subject.tenant, new_session_id(), holder="a")
        record = draft(tag=lease.fence.session_id)
        assert (await subject.put(record, precondition=Precondition(fence=lease.fence))).version == 1
        assert (await subject.put(record, precondition=Precondition(fence=lease.fence))).version == 1

    async def test_a_put_under_a_stale_fence_is_refused(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await subject.store.acquire_session(subject.tenant, session_id, holder="a")
        record, other = draft(tag=session_id), new_session_id(beside=session_id)
        for fence in (Fence(session_id, lease.fence.token + 1), Fence(other, lease.fence.token)):
            with pytest.raises(StaleFence):
                await subject.put(record, precondition=Precondition(fence=fence))
        await subject.store.release_session(subject.tenant, lease.fence)
        with pytest.raises(StaleFence):
            await subject.put(record, precondition=Precondition(fence=lease.fence))
