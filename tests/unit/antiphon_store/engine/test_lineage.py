"""Lists and shapes: pages over entries that cannot be shown, and what is read together."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.store import Order, Record
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft, new_session_id
from antiphon_store.values import Position, Write
from tests.support.rows import SpiedRows

T = "t"


async def put(engine: StoreEngine, *records: Record, **options: Any) -> None:
    for each in records:
        await engine.put(T, Write(each, **options))


async def remove(engine: StoreEngine, *records: Record) -> None:
    for each in records:
        await engine.remove(T, each.id)


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_a_session_leave_out_what_was_removed(engine: StoreEngine, order: Order, limit: int) -> None:
    session_id = new_session_id()
    line: list[Record] = []
    for _ in range(7):  # born in one millisecond: their depth tells them apart
        line.append(draft(line[-1] if line else None, session_id=session_id, tag=session_id))
    await put(engine, *line)
    await remove(engine, line[0], line[3], line[4])
    found: list[str] = []
    after = None
    while True:
        page = await engine.session_records(T, session_id, after=after, limit=limit, order=order, max_bytes=10**6)
        found += [each.id for each in page.values]
        if not page.has_more:
            break
        last = page.values[-1]
        after = Position(last.depth, last.created_at_ms, last.id)
    expected = [line[place].id for place in (1, 2, 5, 6)]
    assert found == (expected if order is Order.ASCENDING else expected[::-1])


async def test_children_and_siblings_are_counted_as_far_as_they_can_be_read(engine: StoreEngine) -> None:
    root = draft()
    children = sorted((draft(root) for _ in range(4)), key=lambda each: each.id)
    grandchildren = [draft(children[0]) for _ in range(3)]
    await put(engine, root, *children, *grandchildren)
    await remove(engine, children[3], grandchildren[0])
    page = await engine.children(T, root.id, after=None, limit=2)
    assert [(each.id, each.child_count) for each in page.values] == [(children[0].id, 2), (children[1].id, 0)]
    assert page.has_more
    last = page.values[-1]
    rest = await engine.children(T, root.id, after=Position(1, last.created_at_ms, last.id), limit=2)
    assert ([each.id for each in rest.values], rest.has_more) == ([children[2].id], False)
    others = await engine.siblings(T, children[1].id, after=None, limit=9)
    assert [each.id for each in others.values] == [children[0].id, children[2].id]
    assert not (await engine.siblings(T, root.id, after=None, limit=9)).values


async def test_a_subtree_over_its_limit_is_refused_and_below_it_whole(engine: StoreEngine) -> None:
    root = draft()
    children = [draft(root) for _ in range(3)]
    await put(engine, root, *children)
    for start, from_root, count in ((root, False, 4), (children[0], True, 4), (children[0], False, 1)):
        found = await engine.tree(T, start.id, from_root=from_root, after=None, limit=9)
        assert len(found.values) == count
    engine.walk_nodes_max = 3
    with pytest.raises(LimitExceeded):
        await engine.leaves(T, root.id, after=None, limit=9)


async def test_responses_of_many_trees_take_one_program_for_each_tree(engine: StoreEngine, rows: SpiedRows) -> None:
    one, two = draft(), draft()
    more = [draft(one) for _ in range(3)]
    await put(engine, one, two, *more)
    rows.forget_calls()
    ids = [more[2].id, two.id, draft().id, one.id, more[0].id]
    found = await engine.fetch_many(T, ids, max_bytes=10**6)
    assert [each.id for each in found] == [more[2].id, two.id, one.id, more[0].id]
    assert len(rows.calls) == 3
    with pytest.raises(LimitExceeded):
        await engine.fetch_many(T, ids, max_bytes=10)


async def test_an_item_is_found_in_the_oldest_response_that_can_be_read(engine: StoreEngine) -> None:
    first, second = (draft(input_items=array("x")) for _ in range(2))
    for record in (first, second):
        await put(engine, record, item_ids=("x",))
    oldest = min(first.id, second.id)  # born in one millisecond
    (found,) = await engine.find_items(T, ["nothing", "x"], max_bytes=10**6)
    assert found.response_id == oldest
    await remove(engine, first if first.id == oldest else second)
    (found,) = await engine.find_items(T, ["x"], max_bytes=10**6)
    assert found.response_id != oldest
    assert not await engine.find_items("other", ["x"], max_bytes=10**6)
