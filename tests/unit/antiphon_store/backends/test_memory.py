"""Rows in memory. tests/contract/store/test_rows.py compares other backends with them and so does not test them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rows.model import (
    Add,
    Applied,
    Chain,
    Condition,
    Delete,
    DeleteBelow,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Now,
    Partition,
    Payload,
    Program,
    Put,
    Range,
    Read,
    Ref,
    Rejection,
    Set,
    Span,
    Unfile,
    made_id,
)

HERE = Partition("t", "tree")
NOW_MS = ManualClock().now_ms()
ONE, TWO = Ref(Kind.SESSION, "one"), Ref(Kind.SESSION, "two")


@pytest.fixture
async def rows(clock: ManualClock) -> MemoryRows:
    rows = MemoryRows(clock)
    await rows.open()
    return rows


async def apply(rows: MemoryRows, *changes: Any) -> None:
    assert isinstance(await rows.transact(HERE, Program(changes=changes)), Applied)


async def read(rows: MemoryRows, what: Read) -> Any:
    outcome = await rows.transact(HERE, Program(reads=[what]))
    assert isinstance(outcome, Applied), outcome
    return outcome.answers[0]


def grow(node_id: str, parent: str | None = None, items: bytes = b"", **fields: Any) -> Grow:
    defaults = {"parent": parent, "session": None, "expires": None, "size": len(items)}
    return Grow(node_id, parent, defaults | fields, items, b"body")


async def test_a_failing_guard_prevents_all_changes_and_every_failing_guard_is_reported(rows: MemoryRows) -> None:
    await apply(rows, Put(ONE, {"n": 1}, b"i", b"b"))
    guards: list[Guard | Fewer] = [
        Guard(ONE, Condition.PRESENT),
        Guard(ONE, Condition.IS, "n", 2),
        Guard(TWO, Condition.PRESENT),
        Fewer(Index.MADE, "s", 0),
    ]
    outcome = await rows.transact(HERE, Program(guards, [Delete(ONE), Put(TWO, {})], [Get(ONE)]))
    assert isinstance(outcome, Rejection)
    assert (outcome.now_ms, outcome.is_crowded, set(outcome.rows)) == (NOW_MS, True, {ONE, TWO})
    found = outcome.rows[ONE]
    assert found is not None
    assert (found.items, found.body) == (b"i", b"b")
    assert await read(rows, Get(TWO)) is None


async def test_rows_count_their_changes_and_keep_what_a_set_leaves_out(rows: MemoryRows) -> None:
    await apply(rows, Set(ONE, {"n": Add(2), "until": Now(5)}, items=b"i"))
    await apply(rows, Set(ONE, {"n": Add(2)}, body=b"b"))
    row = await read(rows, Get(ONE, Payload.ALL))
    assert row == ({"n": 4, "until": NOW_MS + 5, "v": 2}, b"i", b"b")
    await apply(rows, Put(ONE, {"m": 1, "v": 7}))
    assert await read(rows, Get(ONE, Payload.ALL)) == ({"m": 1, "v": 8}, b"", b"")
    await apply(rows, Delete(ONE))
    assert await read(rows, Get(ONE)) is None


async def test_deleting_below_a_prefix_removes_rows_of_its_kind_only(rows: MemoryRows) -> None:
    refs = [Ref(Kind.BATCH, "a/1"), Ref(Kind.BATCH, "a/2"), Ref(Kind.BATCH, "ab/1"), Ref(Kind.LOG, "a/1")]
    await apply(rows, *(Put(ref, {}) for ref in refs), DeleteBelow(Kind.BATCH, "a/"))
    assert [await read(rows, Get(ref)) is not None for ref in refs] == [False, False, True, True]


async def test_a_grown_node_has_its_depth_times_and_index_entries(rows: MemoryRows) -> None:
    await apply(rows, grow("a"), grow("b", "a", session="s"))
    node = await read(rows, Get(Ref(Kind.NODE, "b"), Payload.ALL))
    assert {name: node.fields[name] for name in ("v", "depth", "created", "updated")} == {
        "v": 1,
        "depth": 1,
        "created": NOW_MS,
        "updated": NOW_MS,
    }
    for index, key, entry_id in ((Index.CHILDREN, "a", "b"), (Index.MADE, "s", made_id(1, "b"))):
        _, (entry,) = await rows.page(HERE, index, key, Span(9), payload=Payload.ALL)
        assert (entry.id, entry.at, entry.row) == (entry_id, NOW_MS, node)


CHAINS = [
    (Chain("c", Payload.ITEMS, 3, 100), ["a", "b", "c"]),
    (Chain("c", Payload.ITEMS, 2, 100), "depth"),
    (Chain("c", Payload.ITEMS, 3, 10), ["a", "b", "c"]),  # [12,34,56]
    (Chain("c", Payload.ITEMS, 3, 9), "bytes"),
    (Chain("c", Payload.ALL, 3, 6), ["a", "b", "c"]),
    (Chain("c", Payload.ALL, 3, 5), "bytes"),
    (Chain("nothing", Payload.ITEMS, 3, 100), []),
    (Chain("over", Payload.ITEMS, 3, 100), []),
    (Chain("s", Payload.ITEMS, 3, 100, starts_at_head=True), ["a", "b"]),
    (Chain("unheard", Payload.ITEMS, 3, 100, starts_at_head=True), []),
]


@pytest.mark.parametrize(("chain", "expected"), CHAINS)
async def test_a_chain_is_read_whole_or_not_at_all(rows: MemoryRows, chain: Chain, expected: Any) -> None:
    await apply(
        rows,
        grow("a", items=b"12"),
        grow("b", "a", items=b"34"),
        grow("c", "b", items=b"56"),
        grow("over", "a", expires=Now()),
        Put(Ref(Kind.SESSION, "s"), {"head": "b"}),
    )
    outcome = await rows.transact(HERE, Program(changes=[Put(ONE, {})], reads=[Get(ONE), chain]))
    if isinstance(expected, str):
        assert isinstance(outcome, Rejection)
        assert (outcome.too_long, await read(rows, Get(ONE))) == (expected, None)
    else:
        assert isinstance(outcome, Applied)
        assert outcome.answers[0] is not None  # reads see the changes
        assert list(outcome.answers[1].ids) == expected


RANGES = [("l/1", 1, ["l/1"]), ("l/1", 4, ["l/1", "l/3"]), ("l/2", 99, ["l/1", "l/3", "l/5"]), ("l/9", 99, ["l/5"])]


@pytest.mark.parametrize(("start", "max_bytes", "expected"), RANGES)
async def test_a_range_begins_with_the_row_that_holds_its_start(
    rows: MemoryRows, start: str, max_bytes: int, expected: list[str]
) -> None:
    await apply(rows, *(Put(Ref(Kind.BATCH, each), {}, b"abc") for each in ("l/1", "l/3", "l/5", "m/1")))
    found = await read(rows, Range(Kind.BATCH, "l/", start, max_bytes))
    assert [row_id for row_id, _ in found] == expected


async def test_entries_are_in_order_moved_and_paged_both_ways(rows: MemoryRows) -> None:
    index, key = Index.QUEUE, "q"
    await apply(rows, *(File(index, key, each, at) for each, at in (("c", 2), ("a", 2), ("b", 1), ("d", 9))))
    await apply(rows, File(index, key, "d", 0), Unfile(index, key, "c"), Unfile(index, key, "unheard"))

    async def page(after: tuple[int, str] | None, *, descending: bool = False) -> list[str]:
        _, found = await rows.page(HERE, index, key, Span(2, after, descending))
        return [each.id for each in found]

    assert await page(None) == ["d", "b"]
    assert await page((1, "b")) == ["a"]
    assert await page(None, descending=True) == ["a", "b"]
    assert await page((1, "b"), descending=True) == ["d"]


async def test_a_due_entry_is_taken_once_and_is_due_again_after_its_hiding_time(
    rows: MemoryRows, clock: ManualClock
) -> None:
    await apply(rows, *(File(Index.ENDS, "", each, Now(at)) for each, at in (("b", 0), ("a", 0), ("c", 0), ("d", 1))))

    async def take() -> list[str]:
        return [each.id for each in await rows.take_due("t", Index.ENDS, "", limit=2, hide_ms=500)]

    assert [await take(), await take(), await take()] == [["a", "b"], ["c"], []]
    clock.advance(0.5)
    assert await take() == ["d", "a"]


async def test_an_index_is_visible_in_its_tree_or_in_its_whole_tenant(rows: MemoryRows) -> None:
    await apply(rows, File(Index.ENDS, "", "x"), File(Index.MADE, "s", "x"))
    for partition, expected in ((Partition("t", "other"), [1, 0]), (Partition("u", "tree"), [0, 0]), (HERE, [1, 1])):
        pages = [
            await rows.page(partition, index, key, Span(9)) for index, key in ((Index.ENDS, ""), (Index.MADE, "s"))
        ]
        assert [len(entries) for _, entries in pages] == expected
    assert await rows.tenants() == ["t"]
    await apply(rows, Unfile(Index.ENDS, "", "x"))
    assert await rows.tenants() == []


async def test_a_subtree_is_limited_in_nodes(rows: MemoryRows) -> None:
    await apply(rows, grow("a"), grow("b", "a"), grow("c", "b"), grow("d", "a"))
    _, found = await rows.subtree(HERE, ["a", "nothing"], max_nodes=9)
    assert "".join(sorted(each.id for each in found)) == "abcd"
    _, found = await rows.subtree(HERE, ["a"], max_nodes=2)
    assert len(found) == 2


async def test_a_closed_backend_is_unavailable(rows: MemoryRows) -> None:
    await rows.ready()
    for _ in range(2):
        await rows.close()
        with pytest.raises(StoreUnavailable):
            await rows.ready()
        with pytest.raises(StoreUnavailable):
            await rows.transact(HERE, Program())


async def test_keys_and_trees_without_rows_and_entries_take_no_memory() -> None:
    rows = MemoryRows(ManualClock())
    await rows.open()
    tree = Partition("t", "tree")
    filed = [File(Index.ENDS, "", "log/a"), File(Index.ITEM, "item", "a")]
    await rows.transact(tree, Program(changes=[Put(Ref(Kind.LOG, "a"), {}), *filed]))
    for key in ("x", "y"):
        for partition in (tree, Partition("other", "tree")):
            await rows.page(partition, Index.FOREIGN, key, Span(1))
            await rows.page(partition, Index.ITEM, key, Span(1))
    assert list(rows.tenant_wide) == [("t", Index.ENDS, "")]
    assert list(rows.trees[tree].indexes) == [(Index.ITEM, "item")]
    unfiled = [Unfile(each.of, each.key, each.id) for each in filed]
    await rows.transact(tree, Program(changes=[Delete(Ref(Kind.LOG, "a")), *unfiled]))
    assert not rows.tenant_wide
    assert not rows.trees
