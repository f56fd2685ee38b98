"""Lists of responses and children, and lookups of items."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.ids import SequentialIds
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Order, Record
from antiphon_store.service import StoreService
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft, new_session_id
from tests.support.rows import SpiedRows

T = "t"


async def put(store: StoreService, *records: Record, **options: Any) -> None:
    for each in records:
        await store.put(T, each, **options)


async def remove(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.delete(T, each.id)


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_a_session_leave_out_deleted_responses(store: StoreService, order: Order, limit: int) -> None:
    session_id = new_session_id()
    line: list[Record] = []
    for _ in range(7):  # created in one millisecond, so that only their depth orders them
        line.append(draft(line[-1] if line else None, session_id=session_id, tag=session_id))
    await put(store, *line)
    await remove(store, line[0], line[3], line[4])
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list_responses(T, session_id, cursor=cursor, limit=limit, order=order)
        found += [each.id for each in page.records]
        cursor = page.next_cursor
        if cursor is None:
            break
    expected = [line[place].id for place in (1, 2, 5, 6)]
    assert found == (expected if order is Order.ASCENDING else expected[::-1])


async def test_children_and_siblings_are_listed_and_counted_without_deleted_ones(store: StoreService) -> None:
    root = draft()
    children = sorted((draft(root) for _ in range(4)), key=lambda each: each.id)
    grandchildren = [draft(children[0]) for _ in range(3)]
    await put(store, root, *children, *grandchildren)
    await remove(store, children[3], grandchildren[0])
    page = await store.children(T, root.id, limit=2)
    assert [(each.id, each.child_count) for each in page.nodes] == [(children[0].id, 2), (children[1].id, 0)]
    assert page.next_cursor is not None
    rest = await store.children(T, root.id, cursor=page.next_cursor, limit=2)
    assert ([each.id for each in rest.nodes], rest.next_cursor) == ([children[2].id], None)
    others = await store.siblings(T, children[1].id, limit=9)
    assert [each.id for each in others.nodes] == [children[0].id, children[2].id]
    assert not (await store.siblings(T, root.id, limit=9)).nodes


@pytest.mark.parametrize(
    ("limit", "max_bytes", "taken"), [(4, 1000, 4), (2, 1000, 2), (4, 42, 3), (4, 41, 2), (4, 1, 1), (1, 1, 1)]
)
async def test_a_page_is_bounded_by_count_and_bytes(
    store: StoreService, rows: SpiedRows, limit: int, max_bytes: int, taken: int
) -> None:
    session_id = new_session_id()
    parts: dict[str, Any] = {"body": b'{"a":1234}', "input_items": b"[]", "output_items": b"[]"}  # 14 bytes
    line: list[Record] = []
    for _ in range(4):
        line.append(draft(line[-1] if line else None, session_id=session_id, **parts))
    await put(store, *line)
    store.page_bytes_max = max_bytes
    rows.forget_calls()
    page = await store.list_responses(T, session_id, limit=limit, order=Order.ASCENDING)
    assert [each.id for each in page.records] == [each.id for each in line[:taken]]
    assert (page.next_cursor is not None) is (taken < len(line))
    assert rows.calls == ["page"]  # no more is read than needed


async def test_an_item_is_found_in_the_oldest_response_that_can_be_read(store: StoreService) -> None:
    first, second = (draft(input_items=array("x")) for _ in range(2))
    for record in (first, second):
        await put(store, record)
    oldest = min(first.id, second.id)  # both were created in one millisecond
    found = await store.resolve_items(T, ["nothing", "x"])
    assert ([each.response_id for each in found.items], found.missing_ids) == ([oldest], ("nothing",))
    await remove(store, first if first.id == oldest else second)
    (item,) = (await store.resolve_items(T, ["x"])).items
    assert item.response_id != oldest
    assert not (await store.resolve_items("other", ["x"])).items


async def test_an_item_id_used_twice_in_a_response_resolves_to_the_first(store: StoreService) -> None:
    inputs, outputs = b'[{"id":"a","n":1},{"id":"a","n":2}]', b'[{"id":"a","n":3},{"id":"c","n":4}]'
    record = draft(input_items=inputs, output_items=outputs)
    await put(store, record)
    found = await store.resolve_items(T, ["a", "c", "d"])
    assert [(each.response_id, each.item) for each in found.items] == [
        (record.id, b'{"id":"a","n":1}'),
        (record.id, b'{"id":"c","n":4}'),
    ]


async def test_a_fork_gets_its_session_id_from_the_given_source(rows: SpiedRows) -> None:
    store, record = StoreService(rows, ids=SequentialIds()), draft()
    await store.put("t", record)
    made = await store.fork("t", ForkSource(up_to_response_id=record.id))
    assert made.session_id == f"conv_{record.id[5:21]}{1:032x}"
