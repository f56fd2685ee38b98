"""Chains: complete, in order, shared by forks, and rejected if they are too long."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import ChainTooLong, PreviousResponseNotFound, ResponseNotFound
from antiphon_core.jsons import dumps, join_arrays, loads
from antiphon_core.ports.store import Record, Status
from antiphon_store.testing.subject import Subject, content, draft


def join_history(line: list[Record]) -> bytes:
    """The history of a chain."""
    return join_arrays(items for record in line for items in (record.input_items, record.output_items))


def size_bytes(record: Record) -> int:
    return len(record.body) + len(record.input_items) + len(record.output_items)


class LineageSuite:
    async def chain_of(self, subject: Subject, record: Record) -> list[tuple[object, ...]]:
        return [content(each) for each in await subject.store.chain(subject.tenant, record.id)]

    async def test_a_chain_begins_at_the_root(self, subject: Subject) -> None:
        line = await subject.put_line(5)
        chain = await subject.store.chain(subject.tenant, line[-1].id)
        assert [content(each) for each in chain] == [content(each) for each in line]
        assert [each.depth for each in chain] == [0, 1, 2, 3, 4]

    async def test_a_chain_ends_at_the_response_asked_for(self, subject: Subject) -> None:
        line = await subject.put_line(5)
        assert await self.chain_of(subject, line[2]) == [content(each) for each in line[:3]]
        assert await self.chain_of(subject, line[0]) == [content(line[0])]

    async def test_branches_share_the_chain_that_they_continue(self, subject: Subject) -> None:
        trunk = await subject.put_line(4)
        left = await subject.put_line(3, parent=trunk[1])
        right = await subject.put_line(2, parent=trunk[1])
        leaf = await subject.put_line(2, parent=left[0])
        expected = {
            trunk[3].id: trunk,
            left[2].id: trunk[:2] + left,
            right[1].id: trunk[:2] + right,
            leaf[1].id: trunk[:2] + left[:1] + leaf,
        }
        for tip, line in expected.items():
            chain = await subject.store.chain(subject.tenant, tip)
            assert [content(each) for each in chain] == [content(each) for each in line]
            assert [each.depth for each in chain] == list(range(len(line)))

    async def test_a_chain_with_a_branch_at_every_response_is_read_whole(self, subject: Subject) -> None:
        line: list[Record] = []
        for _ in range(20):
            record = draft(line[-1] if line else None)
            await subject.put(record)
            if line:
                await subject.put(draft(line[-1]))
            line.append(record)
        for record in reversed(line):  # a later child of each, so that every tip is on a branch of its own
            await subject.put(draft(record))
        deepest = draft(line[-1])
        await subject.put(deepest)
        assert await self.chain_of(subject, deepest) == [content(each) for each in [*line, deepest]]

    async def test_history_is_the_items_of_the_chain_joined(self, subject: Subject) -> None:
        trunk = await subject.put_line(3)
        bare = draft(trunk[1], input_items=b" [ ] ", output_items=b"[]")
        await subject.put(bare)
        (fork,) = await subject.put_line(1, parent=bare)
        assert await subject.begin_after(fork) == join_history([*trunk[:2], bare, fork])
        assert await subject.begin_after(bare) == join_history(trunk[:2])

    async def test_calls_of_a_response_that_did_not_complete_are_incomplete_in_a_history(
        self, subject: Subject
    ) -> None:
        call = {"id": "fc_1", "type": "function_call", "call_id": "c", "status": "completed"}
        for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.INCOMPLETE):
            root = draft(status=status, output_items=dumps([call]))
            await subject.put(root)
            read = "completed" if status is Status.COMPLETED else "incomplete"
            given, seen = loads(root.input_items), loads(await subject.begin_after(root))
            assert seen == [*given, call | {"status": read}]
            assert (await subject.get(root)).output_items == root.output_items

    async def test_an_unknown_parent_is_not_found(self, subject: Subject) -> None:
        unknown = draft()
        child = draft(unknown)
        with pytest.raises(ResponseNotFound) as caught:
            await subject.put(child)
        assert caught.value.facts["id"] == unknown.id
        with pytest.raises(ResponseNotFound):
            await subject.get(child)

    async def test_an_unknown_response_has_no_chain_and_no_turn(self, subject: Subject) -> None:
        unknown = draft()
        with pytest.raises(ResponseNotFound):
            await subject.store.chain(subject.tenant, unknown.id)
        with pytest.raises(PreviousResponseNotFound) as caught:
            await subject.begin_after(unknown)
        assert caught.value.field == "previous_response_id"

    async def test_a_chain_over_the_depth_limit_is_rejected(self, subject: Subject) -> None:
        line = await subject.put_line(4)
        tip = line[-1]
        assert len(await subject.store.chain(subject.tenant, tip.id, max_depth=4)) == 4
        assert await subject.begin_after(tip, max_depth=4) == join_history(line)
        with pytest.raises(ChainTooLong) as caught:
            await subject.store.chain(subject.tenant, tip.id, max_depth=3)
        assert caught.value.facts["limit"] == "3 responses"
        with pytest.raises(ChainTooLong):
            await subject.begin_after(tip, max_depth=3)

    async def test_a_chain_over_the_byte_limit_is_rejected(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        tip, all_bytes, history_bytes = line[-1], sum(map(size_bytes, line)), len(join_history(line))
        assert len(await subject.store.chain(subject.tenant, tip.id, max_bytes=all_bytes)) == 3
        assert await subject.begin_after(tip, max_bytes=history_bytes) == join_history(line)
        with pytest.raises(ChainTooLong) as caught:
            await subject.store.chain(subject.tenant, tip.id, max_bytes=all_bytes - 1)
        assert caught.value.facts["limit"] == f"{all_bytes - 1} bytes"
        with pytest.raises(ChainTooLong):
            await subject.begin_after(tip, max_bytes=history_bytes - 1)

    async def test_a_rejected_read_keeps_no_snapshot(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        errors = []
        for _ in range(10):
            with pytest.raises(ChainTooLong) as caught:
                await subject.store.chain(subject.tenant, line[-1].id, max_bytes=1)
            errors.append(caught)
            (newest,) = await subject.put_line(1, parent=line[-1])
            assert len(await subject.store.chain(subject.tenant, newest.id)) == 4

    async def test_a_deleted_response_is_not_found_before_limits_are_checked(self, subject: Subject) -> None:
        line = await subject.put_line(3)
        await subject.delete(line[-1])
        with pytest.raises(ResponseNotFound):
            await subject.store.chain(subject.tenant, line[-1].id, max_depth=1, max_bytes=1)
        await subject.put(replace(line[-1], output_items=b"[]"))
        with pytest.raises(ChainTooLong):
            await subject.store.chain(subject.tenant, line[-1].id, max_depth=1, max_bytes=1)
