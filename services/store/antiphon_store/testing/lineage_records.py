"""Batches and lists of records, changes of their status, and lookups of their items."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import (
    InvalidRequest,
    LimitExceeded,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ids import RandomIds, new_item_id, new_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import PAGE_BYTES_MAX
from antiphon_core.ports.lineage import ResolvedItem
from antiphon_core.ports.store import Fence, Order, Precondition, Record, Status
from antiphon_store.testing.lineage_forks import put_turns
from antiphon_store.testing.lineage_subject import lineage
from antiphon_store.testing.subject import Subject, content, draft, new_session_id

_IDS = RandomIds()
HUGE = "x" * (PAGE_BYTES_MAX // 3)


class LineageBatchSuite:
    async def test_a_batch_is_in_the_order_of_the_request(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        gone = draft()
        await subject.put(gone)
        await subject.delete(gone)
        asked = [line[2].id, draft().id, line[0].id, gone.id, line[2].id]
        found = await lineage(subject).batch_get(subject.tenant, asked)
        assert [content(each) for each in found] == [content(line[2]), content(line[0])]
        assert [each.depth for each in found] == [2, 0]
        stranger = subject.tenant + "-other"
        assert await lineage(subject).batch_get(stranger, asked) == []


class LineageStatusSuite:
    async def put_running(self, subject: Subject) -> Record:
        record = draft(status=Status.IN_PROGRESS)
        await subject.put(record)
        return record

    async def test_a_status_update_changes_only_the_status(self, subject: Subject) -> None:
        record = await self.put_running(subject)
        born = await subject.get(record)
        await subject.elapse(5)
        stamp = await lineage(subject).update_status(subject.tenant, record.id, Status.CANCELLED)
        read = await subject.get(record)
        assert content(read) == content(replace(record, status=Status.CANCELLED))
        assert (stamp.version, read.version) == (2, 2)
        assert read.created_at_ms == born.created_at_ms < read.updated_at_ms == stamp.updated_at_ms

    async def test_a_change_of_status_does_not_extend_the_lifetime(self, subject: Subject) -> None:
        record = draft(status=Status.QUEUED)
        before = await subject.put(record, ttl_ms=1000)
        await subject.elapse(600)
        stamp = await lineage(subject).update_status(subject.tenant, record.id, Status.IN_PROGRESS)
        assert stamp.expires_at_ms == before.expires_at_ms
        await subject.elapse(600)
        with pytest.raises(ResponseNotFound):
            await lineage(subject).update_status(subject.tenant, record.id, Status.COMPLETED)

    @pytest.mark.parametrize(
        "condition",
        [Precondition(), Precondition(version=1), Precondition(statuses=frozenset({Status.IN_PROGRESS}))],
    )
    async def test_a_repeated_status_update_changes_nothing(self, subject: Subject, condition: Precondition) -> None:
        record = await self.put_running(subject)
        update = lineage(subject).update_status
        stamp = await update(subject.tenant, record.id, Status.FAILED, precondition=condition)
        await subject.elapse(5)
        assert await update(subject.tenant, record.id, Status.FAILED, precondition=condition) == stamp

    async def test_a_status_update_with_a_failed_precondition_is_rejected(self, subject: Subject) -> None:
        record = await self.put_running(subject)
        refused: list[tuple[type[Exception], Precondition]] = [
            (VersionMismatch, Precondition(version=2)),
            (VersionMismatch, Precondition(version=0)),
            (StatusMismatch, Precondition(statuses=frozenset({Status.QUEUED}))),
            (StatusMismatch, Precondition(unless_statuses=frozenset({Status.IN_PROGRESS}))),
            (StaleFence, Precondition(fence=Fence(new_session_id(beside=record.id), 1))),
        ]
        for error, condition in refused:
            with pytest.raises(error):
                await lineage(subject).update_status(
                    subject.tenant, record.id, Status.COMPLETED, precondition=condition
                )
        read = await subject.get(record)
        assert (read.status, read.version) == (Status.IN_PROGRESS, 1)

    async def test_a_status_update_under_a_live_fence_is_written(self, subject: Subject) -> None:
        record = await self.put_running(subject)
        lease = await subject.store.acquire_session(subject.tenant, new_session_id(beside=record.id), holder="a")
        condition = Precondition(version=1, fence=lease.fence)
        stamp = await lineage(subject).update_status(
            subject.tenant, record.id, Status.COMPLETED, precondition=condition
        )
        assert stamp.version == 2

    async def test_another_tenants_status_cannot_be_changed(self, subject: Subject) -> None:
        record = await self.put_running(subject)
        with pytest.raises(ResponseNotFound):
            await lineage(subject).update_status(subject.tenant + "-other", record.id, Status.CANCELLED)
        assert (await subject.get(record)).status is Status.IN_PROGRESS


class LineageListSuite:
    async def ids(self, subject: Subject, session_id: str, **options: object) -> list[str]:
        page = await lineage(subject).list_responses(subject.tenant, session_id, **options)  # type: ignore[arg-type]
        return [record.id for record in page.records]

    async def test_a_session_lists_its_readable_responses_only(self, subject: Subject) -> None:
        session_id = new_session_id()
        line = await put_turns(subject, session_id, 4)
        await put_turns(subject, new_session_id(), 1)
        await subject.delete(line[1])
        left = [line[0].id, line[2].id, line[3].id]
        assert await self.ids(subject, session_id, order=Order.ASCENDING) == left
        assert await self.ids(subject, session_id) == left[::-1]
        page = await lineage(subject).list_responses(subject.tenant, session_id)
        assert content(page.records[0]) == content(line[3])
        assert await self.ids(subject, new_session_id()) == []
        assert (await lineage(subject).list_responses(subject.tenant + "-other", session_id)).records == []

    async def test_responses_are_listed_in_the_requested_order(self, subject: Subject) -> None:
        session_id = new_session_id()
        records = []
        for _ in range(5):
            records.append(draft(session_id=session_id))
            await subject.put(records[-1])
            await subject.elapse(2)
        expected = [record.id for record in records]
        assert await self.ids(subject, session_id, order=Order.ASCENDING) == expected
        assert await self.ids(subject, session_id, order=Order.DESCENDING) == expected[::-1]

    @pytest.mark.parametrize("order", Order)
    async def test_pages_of_any_size_add_up_to_the_whole_list(self, subject: Subject, order: Order) -> None:
        session_id = new_session_id()
        await put_turns(subject, session_id, 3)
        await subject.elapse(2)
        for _ in range(4):
            await subject.put(draft(session_id=session_id))
        whole = await self.ids(subject, session_id, order=order)
        assert len(whole) == 7
        for size in (1, 3, 7, 8):
            found: list[str] = []
            cursor: str | None = None
            while cursor is not None or not found:
                page = await lineage(subject).list_responses(
                    subject.tenant, session_id, cursor=cursor, limit=size, order=order
                )
                assert len(page.records) == size or page.next_cursor is None
                found += [record.id for record in page.records]
                assert len(found) == len(set(found))  # no page repeats, so the loop ends
                cursor = page.next_cursor
            assert found == whole

    async def test_a_page_ends_before_it_is_too_large(self, subject: Subject) -> None:
        session_id = new_session_id()
        for _ in range(3):
            await subject.put(draft(text=HUGE, session_id=session_id))
        page = await lineage(subject).list_responses(subject.tenant, session_id)
        assert len(page.records) == 2
        assert len(await self.ids(subject, session_id, cursor=page.next_cursor)) == 1

    async def test_a_cursor_of_another_request_is_rejected(self, subject: Subject) -> None:
        session_id = new_session_id()
        await put_turns(subject, session_id, 2)
        page = await lineage(subject).list_responses(subject.tenant, session_id, limit=1)
        for changed in ({"session_id": new_session_id()}, {"order": Order.ASCENDING}, {"tenant": "another"}):
            question = {"tenant": subject.tenant, "session_id": session_id, "cursor": page.next_cursor, **changed}
            with pytest.raises(InvalidRequest) as caught:
                await lineage(subject).list_responses(**question)  # type: ignore[arg-type]
            assert caught.value.field == "cursor"

    async def test_a_response_moved_to_another_session_is_listed_there(self, subject: Subject) -> None:
        one = new_session_id()
        two = new_session_id(one)
        record = draft(session_id=one)
        await subject.put(record)
        await subject.put(replace(record, session_id=two), precondition=Precondition(version=1))
        assert await self.ids(subject, one) == []
        assert await self.ids(subject, two) == [record.id]


class LineageItemSuite:
    async def resolve(self, subject: Subject, *item_ids: str) -> tuple[list[ResolvedItem], list[str]]:
        found = await lineage(subject).resolve_items(subject.tenant, item_ids)
        return list(found.items), list(found.missing_ids)

    async def put_with(
        self, subject: Subject, *item_ids: str, parent: Record | None = None, tag: str | None = None, **options: int
    ) -> Record:
        items = [{"id": item_id, "type": "message", "text": f"ü {item_id}"} for item_id in item_ids]
        record = draft(parent, tag=tag, input_items=dumps(items[:1]), output_items=dumps(items[1:]))
        await subject.put(record, **options)
        return record

    async def test_items_are_found_in_any_response(self, subject: Subject) -> None:
        one = await self.put_with(subject, "a", "b", "c")
        two = await self.put_with(subject, "d")
        items, missing = await self.resolve(subject, "d", "nobody's", "c", "a", "d", "nobody's")
        assert [(item.id, item.response_id) for item in items] == [("d", two.id), ("c", one.id), ("a", one.id)]
        assert [loads(item.item) for item in items] == [
            {"id": item_id, "type": "message", "text": f"ü {item_id}"} for item_id in "dca"
        ]
        assert missing == ["nobody's"]

    async def test_items_of_committed_turns_are_found(self, subject: Subject) -> None:
        record = await subject.commit_in(new_session_id())
        (item_id,) = [item["id"] for item in loads(record.output_items)]
        items, missing = await self.resolve(subject, item_id)
        assert ([item.response_id for item in items], missing) == ([record.id], [])

    async def test_odd_ids_are_found(self, subject: Subject) -> None:
        odd = ["ü", "a\x00b", "a\x00c", " ", "\U0001f600", "x" * 500]
        record = await self.put_with(subject, *odd)
        items, missing = await self.resolve(subject, *odd)
        assert [(item.id, item.response_id) for item in items] == [(item_id, record.id) for item_id in odd]
        assert missing == []

    async def test_an_item_is_found_in_the_oldest_readable_response(self, subject: Subject) -> None:
        first = await self.put_with(subject, "same", "first", ttl_ms=1000)
        await subject.elapse(10)
        second = await self.put_with(subject, "same", "second")
        await subject.elapse(10)
        third = await self.put_with(subject, "same", "third")
        for left in (first, second, third):
            ((item,), _missing) = await self.resolve(subject, "same")
            assert item.response_id == left.id
            if left is first:
                await subject.elapse(1100)
            else:
                await subject.delete(left)
        assert await self.resolve(subject, "same", "first", "third") == ([], ["same", "first", "third"])

    async def test_an_item_id_with_a_tree_tag_is_looked_up_in_that_tree_first(self, subject: Subject) -> None:
        root_id = new_response_id(_IDS)
        item_id = new_item_id(_IDS, "msg", relative=root_id)
        other = await self.put_with(subject, item_id)
        await subject.elapse(10)
        root = await self.put_with(subject, item_id, tag=root_id)
        await subject.elapse(10)
        child = await self.put_with(subject, "next", item_id, parent=root)
        for left in (root, child, other):
            ((item,), _missing) = await self.resolve(subject, item_id)
            assert item.response_id == left.id
            await subject.delete(left)
        assert await self.resolve(subject, item_id) == ([], [item_id])

    @pytest.mark.parametrize("tagged", [False, True])
    async def test_a_replaced_response_has_its_new_items(self, subject: Subject, *, tagged: bool) -> None:
        tag = new_response_id(_IDS)
        old, both, new = [new_item_id(_IDS, "msg", relative=tag if tagged else None) for _ in range(3)]
        record = await self.put_with(subject, old, both, tag=tag)
        changed = replace(record, output_items=dumps([{"id": both}, {"id": new}]), input_items=b"[]")
        await subject.put(changed, precondition=Precondition(version=1))
        items, missing = await self.resolve(subject, old, both, new)
        assert [loads(item.item) for item in items] == [{"id": both}, {"id": new}]
        assert missing == [old]

    async def test_a_deleted_ancestors_items_are_not_found(self, subject: Subject) -> None:
        record = await self.put_with(subject, "kept")
        await subject.put(draft(record))
        await subject.delete(record)
        assert await self.resolve(subject, "kept") == ([], ["kept"])

    async def test_another_tenants_items_do_not_exist(self, subject: Subject) -> None:
        await self.put_with(subject, "mine")
        stranger = replace(subject, tenant=subject.tenant + "-other")
        assert await self.resolve(stranger, "mine") == ([], ["mine"])


class LineagePageLimitSuite:
    """The size limit of one answer, which the service enforces. Large pages of each backend: LineageListSuite."""

    async def test_a_batch_that_is_too_large_is_refused(self, subject: Subject) -> None:
        records = [draft(text=HUGE) for _ in range(3)]
        for record in records:
            await subject.put(record)
        assert len(await lineage(subject).batch_get(subject.tenant, [each.id for each in records[:2]])) == 2
        with pytest.raises(LimitExceeded) as caught:
            await lineage(subject).batch_get(subject.tenant, [each.id for each in records])
        assert caught.value.field == "ids"

    async def test_items_that_are_too_large_together_are_refused(self, subject: Subject) -> None:
        big = [dumps([{"id": name, "text": HUGE}]) for name in "abc"]
        for items in big:
            await subject.put(draft(input_items=items, output_items=b"[]"))
        resolved = await lineage(subject).resolve_items(subject.tenant, ["a", "b"])
        assert len(resolved.items) == 2
        with pytest.raises(LimitExceeded) as caught:
            await lineage(subject).resolve_items(subject.tenant, ["a", "b", "c"])
        assert caught.value.field == "item_ids"
