"""Lists of trees, children, siblings and leaves: complete, in order, in pages."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest, ResponseNotFound
from antiphon_core.ports.lineage import Node, NodePage
from antiphon_core.ports.store import Record, Status
from antiphon_store.testing.lineage_subject import lineage
from antiphon_store.testing.subject import Subject, draft

Read = Callable[..., Awaitable[NodePage]]
LISTS = ("tree", "children", "siblings", "leaves")


async def ids(subject: Subject, name: str, record: Record, **options: Any) -> list[str]:
    return [node.id for node in await nodes(subject, name, record, **options)]


async def nodes(subject: Subject, name: str, record: Record, **options: Any) -> Sequence[Node]:
    """Reads a list that fits on one page."""
    page: NodePage = await getattr(lineage(subject), name)(subject.tenant, record.id, **options)
    assert page.next_cursor is None
    return page.nodes


async def walk(subject: Subject, name: str, record: Record, size: int, **options: Any) -> list[str]:
    """Reads a whole list in pages of `size`."""
    found: list[str] = []
    limit = {"max_nodes" if name == "tree" else "limit": size}
    cursor: str | None = None
    while True:
        read = getattr(lineage(subject), name)
        page: NodePage = await read(subject.tenant, record.id, cursor=cursor, **limit, **options)
        assert len(page.nodes) == size or (page.next_cursor is None and len(page.nodes) <= size)
        found += [node.id for node in page.nodes]
        assert len(found) == len(set(found))  # no page repeats, so the loop ends
        cursor = page.next_cursor
        if cursor is None:
            return found


async def put_children(subject: Subject, parent: Record, count: int) -> list[Record]:
    """Puts children with different times of creation, oldest first."""
    children = []
    for _ in range(count):
        children.append(draft(parent))
        await subject.put(children[-1])
        await subject.elapse(2)
    return children


def all_ids(*records: Record) -> list[str]:
    return [record.id for record in records]


class LineageTreeSuite:
    async def test_a_tree_is_read_level_by_level(self, subject: Subject) -> None:
        trunk = await subject.put_line(2)
        await subject.elapse(2)
        left, right = await put_children(subject, trunk[1], 2)
        (deep,) = await put_children(subject, right, 1)
        (late,) = await put_children(subject, trunk[0], 1)
        expected = [(trunk[0], 2), (trunk[1], 2), (late, 0), (left, 0), (right, 1), (deep, 0)]
        found = await nodes(subject, "tree", trunk[0])
        assert [(node.id, node.child_count) for node in found] == [(each.id, count) for each, count in expected]
        assert [node.depth for node in found] == [0, 1, 1, 2, 2, 3]
        assert [node.parent_id for node in found] == [each.parent_id for each, _ in expected]
        read = await subject.get(deep)
        assert found[-1] == Node(deep.id, right.id, Status.COMPLETED, 3, 0, read.created_at_ms)

    async def test_a_tree_begins_at_the_response_or_at_its_root(self, subject: Subject) -> None:
        trunk = await subject.put_line(3)
        side = await subject.put_line(2, parent=trunk[0])
        twig = await subject.put_line(1, parent=side[0])
        assert await ids(subject, "tree", trunk[1]) == all_ids(*trunk[1:])
        assert await ids(subject, "tree", twig[0]) == all_ids(*twig)
        for inside in (*trunk, *side, *twig):
            whole = await ids(subject, "tree", inside, from_root=True)
            assert set(whole) == set(all_ids(*trunk, *side, *twig))
            assert whole[0] == trunk[0].id

    async def test_unreadable_nodes_connect_readable_ones(self, subject: Subject) -> None:
        line = await subject.put_line(4)
        side = await subject.put_line(2, parent=line[1])
        for record in (line[0], line[1], line[2], *side):
            await subject.delete(record)
        found = await nodes(subject, "tree", line[3], from_root=True)
        assert [(node.id, node.status, node.child_count) for node in found] == [
            (line[0].id, None, 0),
            (line[1].id, None, 0),
            (line[2].id, None, 1),
            (line[3].id, Status.COMPLETED, 0),
        ]

    async def test_expired_leaves_are_not_shown(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        short = draft(root)
        await subject.put(short, ttl_ms=1000)
        long_ = draft(short)
        await subject.put(long_)
        end = draft(short)
        await subject.put(end, ttl_ms=1000)
        await subject.elapse(1100)
        found = await nodes(subject, "tree", root)
        assert [(node.id, node.status, node.child_count) for node in found] == [
            (root.id, Status.COMPLETED, 0),
            (short.id, None, 1),
            (long_.id, Status.COMPLETED, 0),
        ]
        assert await ids(subject, "children", root) == []
        assert await ids(subject, "leaves", root) == [long_.id]
        assert await ids(subject, "siblings", long_) == []

    async def test_children_and_siblings_are_in_order_of_creation(self, subject: Subject) -> None:
        trunk = await subject.put_line(2)
        await subject.elapse(2)
        children = [trunk[1], *await put_children(subject, trunk[0], 4)]
        await subject.put_line(2, parent=children[2])
        await subject.delete(children[3])
        left = [children[0], children[1], children[2], children[4]]
        found = await nodes(subject, "children", trunk[0])
        assert [node.id for node in found] == all_ids(*left)
        assert [node.child_count for node in found] == [0, 0, 1, 0]
        for record in left:
            assert await ids(subject, "siblings", record) == [each.id for each in left if each is not record]
        assert await ids(subject, "siblings", trunk[0]) == []

    async def test_siblings_are_found_past_a_deleted_parent(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        one, two = await put_children(subject, root, 2)
        await subject.delete(root)
        assert await ids(subject, "siblings", one) == [two.id]

    async def test_leaves_have_nothing_readable_below(self, subject: Subject) -> None:
        trunk = await subject.put_line(3)
        await subject.elapse(2)
        (side,) = await put_children(subject, trunk[0], 1)
        (gone,) = await put_children(subject, side, 1)
        (under,) = await put_children(subject, gone, 1)
        await subject.delete(gone)
        assert await ids(subject, "leaves", trunk[0]) == all_ids(trunk[2], under)
        await subject.delete(under)
        assert await ids(subject, "leaves", trunk[0]) == all_ids(trunk[2], side)
        assert await ids(subject, "leaves", trunk[2]) == []

    async def test_pages_of_any_size_add_up_to_the_whole_list(self, subject: Subject) -> None:
        trunk = await subject.put_line(2)
        children = [await subject.put_line(2, parent=trunk[1]) for _ in range(5)]  # created at the same time
        first = children[0][0]
        for name in LISTS:
            record = first if name == "siblings" else trunk[1]
            whole = await ids(subject, name, record)
            assert len(whole) == {"tree": 11, "children": 5, "siblings": 4, "leaves": 5}[name]
            for size in (1, 2, 3, len(whole), 100):
                assert await walk(subject, name, record, size) == whole

    async def test_a_page_continues_after_a_deleted_node(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        await subject.elapse(2)
        children = await put_children(subject, root, 4)
        page = await lineage(subject).children(subject.tenant, root.id, limit=2)
        await subject.delete(children[1])  # the last node of the page
        (late,) = await put_children(subject, root, 1)
        rest = await nodes(subject, "children", root, cursor=page.next_cursor)
        assert [node.id for node in rest] == all_ids(children[2], children[3], late)

    @pytest.mark.parametrize("name", LISTS)
    async def test_a_cursor_of_another_request_is_rejected(self, subject: Subject, name: str) -> None:
        trunk = await subject.put_line(3)
        for parent in trunk:
            await put_children(subject, parent, 3)
        limit = {"max_nodes" if name == "tree" else "limit": 1}
        read: Read = getattr(lineage(subject), name)
        cursor = (await read(subject.tenant, trunk[1].id, **limit)).next_cursor
        assert cursor is not None
        others: list[tuple[str, str, str]] = [(other, subject.tenant, trunk[1].id) for other in LISTS if other != name]
        for wrong, tenant, response_id in [
            *others,
            (name, subject.tenant, trunk[2].id),
            (name, subject.tenant + "-other", trunk[1].id),
        ]:
            with pytest.raises(InvalidRequest) as caught:
                await getattr(lineage(subject), wrong)(tenant, response_id, cursor=cursor)
            assert caught.value.field == "cursor"

    @pytest.mark.parametrize("name", LISTS)
    async def test_the_tree_of_an_unreadable_response_is_not_found(self, subject: Subject, name: str) -> None:
        line = await subject.put_line(2)
        stranger = replace(subject, tenant=subject.tenant + "-other")
        with pytest.raises(ResponseNotFound):
            await nodes(stranger, name, line[0])
        with pytest.raises(ResponseNotFound):
            await nodes(subject, name, draft())
        await subject.delete(line[0])
        with pytest.raises(ResponseNotFound):
            await nodes(subject, name, line[0])
