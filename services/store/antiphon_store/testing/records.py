"""Put, get and list items: every client reads the content that was written."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from antiphon_core import limits
from antiphon_core.errors import AlreadyExists, InvalidRequest, ResponseNotFound
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import Order, Precondition, Record, Status, TurnCommit
from antiphon_store.testing.subject import Subject, content, draft, new_session_id


class RecordSuite:
    async def test_a_record_is_read_byte_by_byte(self, subject: Subject) -> None:
        record = draft(body=b'{ "a" : 1.50 , "b":"\\u00fc" }', session_id=new_session_id())
        stamp = await subject.put(record)
        read = await subject.get(record)
        assert content(read) == content(record)
        assert (read.version, read.depth) == (1, 0)
        assert (stamp.version, stamp.depth) == (1, 0)
        assert stamp.created_at_ms == stamp.updated_at_ms == read.created_at_ms == read.updated_at_ms
        assert stamp.expires_at_ms == read.expires_at_ms

    async def test_white_space_at_the_ends_of_items_is_not_kept(self, subject: Subject) -> None:
        inside = b'{ "id" : "a" }'
        record = draft(input_items=b" [\n" + inside + b"\t] ", output_items=b"[ ]")
        stamp = await subject.put(record)
        read = await subject.get(record)
        assert (read.input_items, read.output_items) == (b"[" + inside + b"]", b"[]")
        assert await subject.put(record) == stamp
        assert await subject.store.commit_turn(subject.tenant, TurnCommit(record)) == stamp

    async def test_an_acknowledged_record_is_read_by_another_client(self, subject: Subject) -> None:
        for _ in range(20):
            record = draft()
            await subject.put(record)
            assert content(await subject.peer.get(subject.tenant, record.id)) == content(record)

    @pytest.mark.parametrize("status", list(Status))
    async def test_every_status_is_kept(self, subject: Subject, status: Status) -> None:
        record = draft(status=status)
        await subject.put(record)
        assert (await subject.get(record)).status is status

    async def test_fields_that_the_store_sets_are_ignored(self, subject: Subject) -> None:
        record = replace(draft(), version=7, depth=9, created_at_ms=1, updated_at_ms=2, expires_at_ms=3)
        stamp = await subject.put(record)
        read = await subject.get(record)
        assert (read.version, read.depth) == (1, 0)
        assert read.created_at_ms == stamp.created_at_ms > 3

    async def test_an_id_that_was_never_written_is_not_found(self, subject: Subject) -> None:
        unknown = draft()
        with pytest.raises(ResponseNotFound) as caught:
            await subject.get(unknown)
        assert caught.value.facts["id"] == unknown.id

    async def test_a_repeated_put_changes_nothing(self, subject: Subject) -> None:
        record = draft()
        stamp = await subject.put(record)
        await subject.elapse(5)
        assert await subject.put(record) == stamp
        assert await subject.put(record, precondition=Precondition(version=0)) == stamp
        assert (await subject.get(record)).version == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"body": b'{"other":1}'},
            {"input_items": b"[]"},
            {"output_items": b"[]"},
            {"status": Status.FAILED},
            {"session_id": None},
        ],
        ids=lambda change: next(iter(change)),
    )
    async def test_other_content_under_the_same_id_is_refused(
        self, subject: Subject, change: dict[str, object]
    ) -> None:
        record = draft(session_id=new_session_id())
        await subject.put(record)
        other = replace(record, **change)  # type: ignore[arg-type]
        for precondition in (Precondition(), Precondition(version=0)):
            with pytest.raises(AlreadyExists) as caught:
                await subject.put(other, precondition=precondition)
            assert caught.value.facts["id"] == record.id
        assert content(await subject.get(record)) == content(record)

    async def test_another_parent_under_the_same_id_is_refused(self, subject: Subject) -> None:
        root, second = await subject.put_line(2)
        with pytest.raises(AlreadyExists):
            await subject.put(replace(second, parent_id=None))
        assert (await subject.get(second)).parent_id == root.id

    async def test_large_content_is_kept(self, subject: Subject) -> None:
        record = draft(text="x" * 2_000_000)
        await subject.put(record)
        assert content(await subject.get(record)) == content(record)


class ItemsSuite:
    """Pages of a response's own input."""

    async def put_with_items(self, subject: Subject, count: int) -> Record:
        items = [{"id": f"msg_{number}", "type": "message"} for number in range(count)]
        record = draft(input_items=dumps(items))
        await subject.put(record)
        return record

    async def test_item_pages_add_up_to_all_items(self, subject: Subject) -> None:
        record = await self.put_with_items(subject, 5)
        seen: list[str] = []
        after, more = None, True
        while more:
            page = await subject.store.list_items(
                subject.tenant, record.id, after=after, limit=2, order=Order.ASCENDING
            )
            ids = [item["id"] for item in loads(page.items)]
            assert (page.first_id, page.last_id) == (ids[0], ids[-1])
            seen += ids
            after, more = page.last_id, page.has_more
        assert seen == [f"msg_{number}" for number in range(5)]

    async def test_items_come_newest_first_by_default(self, subject: Subject) -> None:
        record = await self.put_with_items(subject, 3)
        page = await subject.store.list_items(subject.tenant, record.id)
        assert [item["id"] for item in loads(page.items)] == ["msg_2", "msg_1", "msg_0"]
        assert not page.has_more

    async def test_items_with_the_longest_ids_are_listed(self, subject: Subject) -> None:
        item_id = "".join(chr(0x10000 + secrets.randbelow(0xF0000)) for _ in range(limits.ITEM_ID_CHARS_MAX))
        record = draft(input_items=dumps([{"id": item_id, "type": "message"}]))
        await subject.put(record)
        page = await subject.store.list_items(subject.tenant, record.id)
        assert (page.first_id, page.last_id) == (item_id, item_id)

    async def test_a_response_without_items_has_an_empty_page(self, subject: Subject) -> None:
        record = await self.put_with_items(subject, 0)
        page = await subject.store.list_items(subject.tenant, record.id)
        assert (page.items, page.first_id, page.last_id, page.has_more) == (b"[]", None, None, False)

    async def test_an_unknown_item_id_in_after_is_rejected(self, subject: Subject) -> None:
        record = await self.put_with_items(subject, 3)
        with pytest.raises(InvalidRequest) as caught:
            await subject.store.list_items(subject.tenant, record.id, after="msg_9")
        assert caught.value.field == "after"

    async def test_items_of_an_unknown_response_are_not_found(self, subject: Subject) -> None:
        with pytest.raises(ResponseNotFound):
            await subject.store.list_items(subject.tenant, draft().id)
