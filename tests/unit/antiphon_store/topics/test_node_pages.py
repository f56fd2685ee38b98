"""Pages of trees: they equal the lists of whole trees, and read no more than a page needs."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.lineage import Node
from antiphon_core.ports.store import Record
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.decisions import lineage, tree_pages
from antiphon_store.decisions.lineage import tree_node
from antiphon_store.rows.model import Entry, Index
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from antiphon_store.topics.node_pages import NODE_WORK_BYTES
from antiphon_store.topics.trees import tree_of
from tests.support.rows import SpiedRows
from tests.support.volume import volume

T = "t"
WIDE, DEEP = 3_000, 400


async def walk(store: StoreService, name: str, response_id: str, size: int, **options: Any) -> list[Node]:
    """Reads a whole list in pages of at most `size` nodes."""
    found: list[Node] = []
    cursor = None
    while True:
        limit = {"max_nodes" if name == "tree" else "limit": size}
        page = await getattr(store, name)(T, response_id, cursor=cursor, **limit, **options)
        assert len(page.nodes) <= size
        found += page.nodes
        cursor = page.next_cursor
        if cursor is None:
            return found


async def all_nodes(rows: MemoryRows, start: str) -> list[Node]:
    now_ms, found = await rows.subtree(tree_of(T, start), [start], max_nodes=10_000)
    return [tree_node(each, now_ms) for each in found]


async def grown(store: StoreService, clock: ManualClock, rng: random.Random, count: int) -> list[Record]:
    """Trees of one partition, with several roots, of which some nodes are deleted and some have expired."""
    made: list[Record] = []
    for _ in range(count):
        readable = [each for each in made[-8:] if await is_readable(store, each)]
        parent = rng.choice(readable) if readable and rng.random() < 0.9 else None
        made.append(draft(parent, tag=made[0].id if made else None))
        await store.put(T, made[-1], ttl_ms=rng.choice([None, None, 1000]))
        clock.advance(rng.choice([0, 1]))
        if rng.random() < 0.4:
            await delete(store, rng.choice(made))
    clock.advance(1000)
    return made


async def is_readable(store: StoreService, record: Record) -> bool:
    try:
        await store.get(T, record.id)
    except ResponseNotFound:
        return False
    return True


async def delete(store: StoreService, record: Record) -> None:
    if await is_readable(store, record):
        await store.delete(T, record.id)


@pytest.mark.parametrize("seed", range(volume(6, 200)))
@pytest.mark.parametrize("part_nodes_max", [0, 10_000])
async def test_pages_of_any_tree_add_up_to_the_list_of_all_its_nodes(seed: int, part_nodes_max: int) -> None:
    rng, clock = random.Random(seed), ManualClock()
    rows = MemoryRows(clock)
    await rows.open()
    store = StoreService(rows)
    store.part_nodes_max = part_nodes_max
    store.scan_nodes_max, store.children_counted_max = rng.choice([(1, 1), (3, 2), (100, 100)])
    made = await grown(store, clock, rng, 40)
    all_counted = store.children_counted_max == 100 or part_nodes_max > 0
    for record in [each for each in made if await is_readable(store, each)]:
        root = (await store.chain(T, record.id))[0]
        for start, options in ((record.id, {}), (root.id, {"from_root": True})):
            expected = tree_pages.tree(await all_nodes(rows, start), after=None, limit=10_000)
            found = await walk(store, "tree", record.id, rng.choice([1, 2, 7, 100]), **options)
            assert [each.id for each in found] == [each.id for each in expected]
            assert not all_counted or found == expected
        ends = tree_pages.leaves(await all_nodes(rows, record.id), below=record.id, after=None, limit=10_000)
        assert await walk(store, "leaves", record.id, rng.choice([1, 2, 7, 100])) == ends


async def wide_tree(store: StoreService) -> tuple[Record, list[Record]]:
    root = draft()
    children = [draft(root) for _ in range(WIDE)]
    await put(store, root, *children)
    return root, sorted(children, key=lambda each: each.id)  # created in one millisecond


async def put(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.put(T, each)


async def deep_tree(store: StoreService) -> list[Record]:
    line = [draft()]
    for _ in range(DEEP):
        line.append(draft(line[-1]))
    await put(store, *line)
    return line


@pytest.mark.parametrize("name", ["tree", "leaves", "children"])
async def test_each_page_of_a_wide_tree_reads_about_the_nodes_of_a_page(
    store: StoreService, rows: SpiedRows, name: str
) -> None:
    root, children = await wide_tree(store)
    store.children_counted_max = 50
    limit = {"max_nodes" if name == "tree" else "limit": 20}
    cursor, found = None, list[str]()
    while True:
        rows.forget_calls()
        page = await getattr(store, name)(T, root.id, cursor=cursor, **limit)
        found += [each.id for each in page.nodes]
        assert rows.nodes_read <= 21 + (store.read_nodes_max if cursor is None else 0) + 50
        assert len(rows.calls) <= 6
        cursor = page.next_cursor
        if cursor is None:
            break
    below = [each.id for each in children]
    assert found == ([root.id, *below] if name == "tree" else below)


async def test_a_page_in_the_middle_of_a_deep_tree_reads_about_the_nodes_of_a_page(
    store: StoreService, rows: SpiedRows
) -> None:
    line = await deep_tree(store)
    page = await store.tree(T, line[-1].id, from_root=True, max_nodes=DEEP // 2)
    rows.forget_calls()
    page = await store.tree(T, line[-1].id, from_root=True, cursor=page.next_cursor, max_nodes=20)
    assert [each.id for each in page.nodes] == [each.id for each in line[DEEP // 2 : DEEP // 2 + 20]]
    assert rows.nodes_read <= 2 + 21 + 20
    assert len(rows.calls) <= 4


async def test_a_part_of_a_large_tree_is_read_in_short_pages(store: StoreService, rows: SpiedRows) -> None:
    line = await deep_tree(store)
    store.part_nodes_max, store.scan_nodes_max = 5, 30
    last = line[-1].id
    page = await store.leaves(T, line[10].id, limit=9)  # in the order of ids, which are random
    assert {each.id for each in page.nodes} <= {last}
    assert page.next_cursor is not None
    assert rows.nodes_read <= 2 * DEEP + 200
    assert [each.id for each in await walk(store, "leaves", line[10].id, 9)] == [last]
    assert [each.id for each in await walk(store, "tree", line[10].id, 9)] == [each.id for each in line[10:]]


async def test_a_node_with_many_children_is_listed_with_the_first_ones_counted(store: StoreService) -> None:
    root = draft()
    first, second = draft(root), draft(root)
    await put(store, root, first, second, *[draft(first) for _ in range(4)], *[draft(second) for _ in range(3)])
    store.children_counted_max = 3
    nodes = await walk(store, "children", root.id, 9)
    assert [(each.id, each.child_count) for each in nodes] == [(each, 3) for each in sorted((first.id, second.id))]


async def test_a_node_above_many_unreadable_ones_counts_as_connected(store: StoreService) -> None:
    """Where a readable node is too far below to be seen, a tree stays connected."""
    line = [draft()]
    for _ in range(9):
        line.append(draft(line[-1]))
    await put(store, *line)
    for each in line[1:9]:
        await store.delete(T, each.id)
    store.read_nodes_max = 4
    assert [each.id for each in await walk(store, "tree", line[0].id, 100)] == [each.id for each in line]
    assert [each.id for each in await walk(store, "leaves", line[0].id, 100)] == [line[9].id]


async def test_a_tenant_reads_one_page_at_a_time_and_others_do_not_wait(store: StoreService, rows: SpiedRows) -> None:
    root, _children = await wide_tree(store)
    other = draft()
    await store.put("other", other)
    held, running, most = asyncio.Event(), 0, 0

    async def hold(index: Index, _key: str) -> None:
        nonlocal running, most
        if index is Index.CHILDREN:
            running += 1
            most = max(most, running)
            await held.wait()
            running -= 1

    rows.after_page = hold
    pages = [asyncio.create_task(store.children(T, root.id, limit=2)) for _ in range(8)]
    while not running:
        await asyncio.sleep(0)
    pages[3].cancel()
    assert [each.id for each in (await store.tree("other", other.id)).nodes] == [other.id]
    held.set()
    done = await asyncio.gather(*pages, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [number == 3 for number in range(8)]
    assert most == 1


async def test_a_page_of_a_large_tree_is_made_outside_of_the_event_loop(
    store: StoreService, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = draft()
    few, many = draft(root), draft(root)
    await put(store, root, few, many, draft(few), *(draft(many) for _ in range(INLINE_BYTES_MAX // NODE_WORK_BYTES)))
    threads: set[int] = set()

    def spied(entry: Entry, now_ms: int) -> Node:
        threads.add(threading.get_ident())
        return tree_node(entry, now_ms)

    monkeypatch.setattr(lineage, "tree_node", spied)
    assert len((await store.tree(T, few.id)).nodes) == 2
    assert threads == {threading.get_ident()}
    reads: Sequence[Any] = (store.tree, store.leaves)
    for page_of in reads:
        threads.clear()
        assert (await page_of(T, many.id)).nodes
        assert threads
        assert threading.get_ident() not in threads
