"""Row backends do not differ: random programs have the outcomes of the memory backend."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ids import RandomIds
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import (
    NODE_LISTS,
    TENANT_WIDE,
    Add,
    Applied,
    Chain,
    Change,
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
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Range,
    Read,
    Ref,
    Set,
    Span,
    Unfile,
)
from tests.contract.store.row_backends import ROW_BACKENDS, SPREAD
from tests.support.volume import volume

SEEDS = range(volume(6, 24))
PROGRAMS = 80
KINDS = (Kind.SESSION, Kind.QUOTA, Kind.PROMPT)  # no field of theirs has to be there
NODE = {
    "parent": None,
    "session": None,
    "expires": None,
    "status": "completed",
    "version": 1,
    "deleted": 0,
    "size": 0,
    "input_bytes": 0,
    "items_crc": 0,
    "body_crc": 0,
}
NODES = [f"resp_{number}" for number in range(12)]
IDS = ["a", "b", "ü/ %"]
ENTRIES = [*NODES[:4], "x/1", "ü %"]
FIELDS = ("head", "fence", "until", "odd")


class Programs:
    """Random programs over few ids, so that programs touch the same rows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.grown: list[str] = []  # nodes that were added; none is deleted while it has children

    def ref(self) -> Ref:
        return Ref(self.random.choice(KINDS), self.random.choice(IDS))

    def value(self) -> Any:
        return self.random.choice([None, 0, 1, 2**40, "", "ü\"'", [1, "a", {"b": None}], True])

    def guard(self, now_ms: int) -> Guard | Fewer:
        if self.random.random() < 0.1:
            return Fewer(Index.MADE, "s", self.random.randint(0, 4))
        test = self.random.choice(list(Condition))
        value: Any = self.random.choice([0, 1, "", "a", None])
        if test in (Condition.IN, Condition.NOT_IN):
            value = [value, "other"]
        if self.random.random() < 0.4 and self.grown:
            return Guard(
                Ref(Kind.NODE, self.random.choice(self.grown)), test, self.random.choice(["depth", "v"]), value
            )
        field = "until" if test in (Condition.AHEAD, Condition.BEHIND) else self.random.choice(["head", "fence", "odd"])
        return Guard(self.ref(), test, field, value)

    def change(self) -> Change:
        pick = self.random.choice
        match self.random.randint(0, 7):
            case 7:
                return Put(Ref(Kind.LINEAGE, pick(NODES)), {}, pick([b"", b"ids\xff"]))
            case 0:
                return Put(self.ref(), self.fields(), pick([b"", b"items\x00"]), pick([b"", b"body\xff"]))
            case 1 | 2:
                return Set(self.ref(), self.fields(), pick([None, b"new"]), pick([None, b""]))
            case 3:
                return Delete(self.ref())
            case 4:
                prefix = pick(["log/", "other/"])
                if self.random.random() < 0.2:
                    return DeleteBelow(Kind.BATCH, prefix)
                row_id = f"{prefix}{self.random.randint(0, 5):012d}"
                first = {"v": self.random.choice([0, 7])}
                fields = {"count": 1, "terminal": 0, "checkpoint": None, "crc": 0, **first}
                return Put(Ref(Kind.BATCH, row_id), fields, b"f" * self.random.randint(0, 40))
            case 5:
                index = pick([Index.ITEM, Index.FOREIGN, Index.QUEUE, Index.ENDS, Index.CHILDREN])
                times: list[int | Now] = [Now(), Now(100), 5, 2**41]
                return File(index, pick(["", "ü k"]), pick(ENTRIES), pick(times))
            case _:
                return Unfile(
                    pick([Index.ITEM, Index.FOREIGN, Index.QUEUE, Index.ENDS]), pick(["", "ü k"]), pick(ENTRIES)
                )

    def fields(self) -> dict[str, Any]:
        chosen = self.random.sample(FIELDS, self.random.randint(1, 3))
        return {name: self.field(name) for name in chosen}

    def field(self, name: str) -> Any:
        if name == "until":
            return self.random.choice([None, 0, Now(50), Now(-50)])
        if name == "fence":
            return Add(self.random.randint(1, 3))
        if name == "head":
            return self.random.choice([*NODES, None])
        return self.value()

    def grow(self) -> list[Guard | Change]:
        free = [each for each in NODES if each not in self.grown]
        if not free:
            return []
        node, parent = free[0], self.random.choice([None, *self.grown])
        self.grown.append(node)
        fields = {
            **NODE,
            "parent": parent,
            "session": self.random.choice([None, "s"]),
            "expires": self.random.choice([None, Now(200)]),
            "size": self.random.randint(0, 50),
            "v": self.random.choice([0, 2**40]),
        }
        items = self.random.choice([b"", b'{"id":1}', b"x" * 30])
        guards: list[Guard | Change] = [] if parent is None else [Guard(Ref(Kind.NODE, parent), Condition.PRESENT)]
        return [*guards, Grow(node, parent, fields, items, b"body")]

    def read(self) -> Read:
        pick, payload = self.random.choice, self.random.choice(list(Payload))
        match self.random.randint(0, 4):
            case 0:
                return Get(self.ref(), pick(list(Payload)))
            case 1:
                return Chain(pick(NODES), payload, pick([2, 100]), pick([20, 30, 10_000]))
            case 2:
                return Chain(pick(IDS), payload, 100, 10_000, starts_at_head=True)
            case 3:
                return Range(Kind.BATCH, "log/", f"log/{self.random.randint(0, 6):012d}", pick([1, 50, 10_000]))
            case _:
                return Get(Ref(Kind.NODE, pick(NODES)), pick(list(Payload)))

    def program(self, now_ms: int) -> Program:
        guards = [self.guard(now_ms) for _ in range(self.random.choice([0, 0, 0, 1, 2]))]
        changes = [self.change() for _ in range(self.random.randint(0, 3))]
        if not guards:  # without guards the program is certainly applied
            grown = self.grow()
            guards += [each for each in grown if isinstance(each, Guard)]
            changes += [each for each in grown if isinstance(each, Grow)]
        return Program(guards, changes, [self.read() for _ in range(self.random.randint(0, 3))])


def shown(program: Program, outcome: Outcome) -> Any:
    """An outcome without the payloads that the program did not request, which backends may leave out."""
    if not isinstance(outcome, Applied):
        rows = {ref: row and (dict(row.fields), bytes(row.items), bytes(row.body)) for ref, row in outcome.rows.items()}
        return ("refused", outcome.now_ms, rows, outcome.too_long, outcome.is_crowded)
    return ("applied", outcome.now_ms, [answer(*each) for each in zip(program.reads, outcome.answers, strict=True)])


def answer(read: Read, found: Any) -> Any:
    if isinstance(read, Range):
        return [(row_id, dict(row.fields), bytes(row.items)) for row_id, row in found]
    payload = read.payload
    if isinstance(read, Get):
        return found and part(found, payload)
    return [(row_id, line(row, payload)) for row_id, row in found.named_rows()]


def part(row: Any, payload: Payload) -> Any:
    items = bytes(row.items) if payload is not Payload.NONE else b""
    return dict(row.fields), items, bytes(row.body) if payload is Payload.ALL else b""


def line(row: Any, payload: Payload) -> Any:
    """A node of a chain, which has its lineage in place of a body if that was requested."""
    return *part(row, payload), bytes(row.body) if payload is Payload.LINEAGE else b""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def pointers(memory: MemoryRows, partition: Partition, program: Program, now_ms: int) -> Program:
    """The entries that a spread backend has written for a rejected program. No existing entry moves to a later time."""
    filed = {
        (each.of, each.key, each.id): each
        for each in program.changes
        if isinstance(each, File | Unfile) and each.of in TENANT_WIDE
    }
    written: list[Change] = []
    for each in filed.values():
        if isinstance(each, File):
            _, entries = await memory.page(partition, each.of, each.key, Span(100))
            at = now_ms + each.at.plus_ms if isinstance(each.at, Now) else each.at
            if at <= next((entry.at for entry in entries if entry.id == each.id), at):
                written.append(each)
    return Program(changes=written)


@pytest.fixture
def is_spread(request: pytest.FixtureRequest) -> bool:
    return request.node.callspec.params["backend"] in SPREAD


@pytest.fixture(params=ROW_BACKENDS)
async def backend(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[RowBackend]:
    async with AsyncExitStack() as stack:
        opened = ROW_BACKENDS[request.param](clock, tmp_path)
        await opened.open()
        stack.push_async_callback(opened.close)
        yield opened


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_programs_have_the_outcomes_that_they_have_in_memory(
    backend: RowBackend, clock: ManualClock, seed: int, is_spread: bool
) -> None:
    memory, programs = MemoryRows(clock), Programs(seed)
    await memory.open()
    partition = Partition(f"tenant-{RandomIds().hex(8)}", "tree")
    other = partition._replace(tree="other")
    for _ in range(PROGRAMS):
        clock.advance(programs.random.choice([0, 0, 0.01, 0.1]))
        program = programs.program(clock.now_ms())
        expected = await memory.transact(partition, program)
        assert shown(program, await backend.transact(partition, program)) == shown(program, expected), program
        if is_spread and not isinstance(expected, Applied):
            left = await pointers(memory, partition, program, clock.now_ms())
            await memory.transact(partition, left)
    assert await pages(backend, partition) == await pages(memory, partition)
    assert await pages(backend, other) == await pages(memory, other)
    for index in (Index.QUEUE, Index.ENDS):
        for _ in range(3):
            options = {"limit": 2, "hide_ms": 70}
            due = await memory.take_due(partition.tenant, index, "", **options)
            found = await backend.take_due(partition.tenant, index, "", **options)
            assert [(each.id, each.at) for each in found] == [(each.id, each.at) for each in due]
    named = partition.tenant in await memory.tenants()
    assert (partition.tenant in await backend.tenants()) >= named


async def pages(backend: RowBackend, partition: Partition) -> list[Any]:
    found: list[Any] = []
    for index, key in [(Index.CHILDREN, node) for node in NODES] + [(Index.MADE, "s")]:
        for descending in (False, True):
            span = Span(2, is_descending=descending)
            _, first = await backend.page(partition, index, key, span, payload=Payload.ALL)
            found.append([(each.id, each.at, each.row and part(each.row, Payload.ALL)) for each in first])
            if first:
                span = span._replace(after=(first[-1].at, first[-1].id))
                _, more = await backend.page(partition, index, key, span, payload=Payload.ALL)
                found.append([(each.id, each.at) for each in more])
    return [*found, *await tree_pages(backend, partition)]


async def tree_pages(backend: RowBackend, partition: Partition) -> list[Any]:
    found: list[Any] = []
    for index in (Index.ITEM, Index.FOREIGN, Index.QUEUE, Index.ENDS):
        for key in ("", "ü k"):
            _, entries = await backend.page(partition, index, key, Span(100))
            found.append([(each.id, each.at) for each in entries])
    for node in NODES:
        _, below = await backend.subtree(partition, [node], max_nodes=100)
        found.append({each.id: each.row and part(each.row, Payload.NONE) for each in below})
    _, children = await backend.children(partition, NODES, max_nodes=1000)
    found.append([(each.id, each.at, each.row and part(each.row, Payload.NONE)) for each in children])
    for max_nodes in (0, 1, 2, 3):
        _, first = await backend.children(partition, NODES, max_nodes=max_nodes)
        found.append([each.id for each in first])
    found += [await backend.ancestors(partition, NODES, depth=depth) for depth in (0, 1, 2)]
    for index in sorted(NODE_LISTS):
        found += [await listed(backend, partition, index, descending=each) for each in (False, True)]
    return found


async def listed(backend: RowBackend, partition: Partition, index: Index, *, descending: bool) -> list[Any]:
    """All nodes that an index lists, read in pages of every size."""
    _, whole = await backend.page(partition, index, "", Span(100, None, descending), payload=Payload.NONE)
    lines = [(each.id, each.at) for each in whole]
    for size in (1, 2):
        found: list[tuple[str, int]] = []
        while True:
            after = (found[-1][1], found[-1][0]) if found else None
            _, page = await backend.page(partition, index, "", Span(size, after, descending))
            found += [(each.id, each.at) for each in page]
            if len(page) < size:
                break
        assert found == lines
    return [(each.id, each.at, each.row and part(each.row, Payload.NONE)) for each in whole]


async def test_a_subtree_is_cut_off_at_max_nodes(backend: RowBackend) -> None:
    partition = Partition(f"tenant-{RandomIds().hex(8)}", "tree")
    await backend.transact(partition, Program(changes=[Grow("root", None, NODE)]))
    for number in range(5):
        await backend.transact(
            partition, Program(changes=[Grow(f"child {number}", "root", {**NODE, "parent": "root"})])
        )
    _, found = await backend.subtree(partition, ["root"], max_nodes=3)
    assert len(found) == 3


def grown(node: str, parent: str | None, **fields: Any) -> Grow:
    return Grow(node, parent, {**NODE, "parent": parent, "size": 1, **fields}, node.encode())


async def chain_of(backend: RowBackend, partition: Partition, node: str, max_bytes: int = 2**20) -> Any:
    """The ids and items of a chain, or the limit that the chain exceeds."""
    outcome = await backend.transact(partition, Program(reads=[Chain(node, Payload.ALL, 2**20, max_bytes)]))
    if not isinstance(outcome, Applied):
        return outcome.too_long
    return list(outcome.answers[0].ids), list(outcome.answers[0].items)


async def test_a_subtree_of_a_missing_node_is_empty(backend: RowBackend) -> None:
    partition = Partition(f"tenant-{RandomIds().hex(8)}", "tree")
    await backend.transact(partition, Program(changes=[grown("root", None), grown("child", "root")]))
    await backend.transact(partition, Program(changes=[Delete(Ref(Kind.NODE, "root"))]))
    _, found = await backend.subtree(partition, ["root"], max_nodes=9)
    assert found == []


@pytest.mark.parametrize("fork_at", [255, 256, 257])
async def test_a_chain_of_many_parts_and_branches_comes_in_order(backend: RowBackend, fork_at: int) -> None:
    partition = Partition(f"tenant-{RandomIds().hex(8)}", "tree")
    trunk = [f"trunk {number}" for number in range(fork_at + 2)]
    branch = [f"branch {number}" for number in range(512 - fork_at)]
    parents = [*zip(trunk, [None, *trunk], strict=False), *zip(branch, [trunk[fork_at], *branch], strict=False)]
    await backend.transact(partition, Program(changes=[grown(*each) for each in parents]))
    ids = [*trunk[: fork_at + 1], *branch]
    assert await chain_of(backend, partition, branch[-1]) == (ids, [each.encode() for each in ids])


async def test_the_byte_limit_of_a_chain_counts_current_node_sizes(backend: RowBackend) -> None:
    partition = Partition(f"tenant-{RandomIds().hex(8)}", "tree")
    await backend.transact(partition, Program(changes=[grown("root", None, size=10), grown("child", "root", size=5)]))
    assert await chain_of(backend, partition, "child", 14) == "bytes"
    await backend.transact(partition, Program(changes=[Set(Ref(Kind.NODE, "root"), {"size": 9})]))
    assert await chain_of(backend, partition, "child", 14) == (["root", "child"], [b"root", b"child"])
    await backend.transact(partition, Program(changes=[Set(Ref(Kind.NODE, "root"), {"deleted": 1})]))
    assert await chain_of(backend, partition, "child", 13) == "bytes"
