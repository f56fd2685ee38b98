"""Rows in dictionaries: a peer of the other backends, gone with the process.

Every primitive is one synchronous step of the event loop, and therefore indivisible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.errors import StoreUnavailable
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.decision import Decision
from antiphon_store.rows.local import TooLong, decide
from antiphon_store.rows.model import (
    TENANT_WIDE,
    Applied,
    Chain,
    Delete,
    DeleteBelow,
    Entry,
    Fewer,
    File,
    Get,
    Grow,
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
    Refused,
    Row,
    Set,
    Unfile,
    changed,
    holds,
    made,
    made_id,
    named_node,
    next_version,
)

SHORT_LIST_LINES = 8

_Line = tuple[int, str]  # when, and the id
_Answer = TypeVar("_Answer")


class _Index:
    """The entries under one key: in order, and by id."""

    __slots__ = ("lines", "times")

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self.times: dict[str, int] | None = None  # of a long list: most are short, and a dictionary each is dear

    def file(self, entry_id: str, at: int) -> None:
        self.unfile(entry_id)
        insort(self.lines, (at, entry_id))
        if self.times is not None:
            self.times[entry_id] = at
        elif len(self.lines) > SHORT_LIST_LINES:
            self.times = {each: when for when, each in self.lines}

    def unfile(self, entry_id: str) -> None:
        at = self._time_of(entry_id)
        if at is not None:
            del self.lines[bisect_left(self.lines, (at, entry_id))]

    def _time_of(self, entry_id: str) -> int | None:
        """Taken out of `times`."""
        if self.times is not None:
            return self.times.pop(entry_id, None)
        return next((at for at, each in self.lines if each == entry_id), None) if self.lines else None

    def behind(self, after: _Line | None, *, descending: bool) -> Iterator[_Line]:
        """The lines behind one, in either direction."""
        if descending:
            end = len(self.lines) if after is None else bisect_left(self.lines, after)
            return (self.lines[place] for place in range(end - 1, -1, -1))
        return islice(self.lines, 0 if after is None else bisect_right(self.lines, after), None)


class _Tree:
    """The rows of one partition, and its indexes."""

    def __init__(self) -> None:
        self.rows: dict[Ref, Row] = {}
        self.indexes: defaultdict[tuple[Index, str], _Index] = defaultdict(_Index)


class MemoryRows:
    """Implements `rows.backend.RowBackend` and `rows.local.LocalRowBackend`."""

    durability = Durability.MEMORY

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._trees: dict[Partition, _Tree] = {}
        self._tenant_wide: defaultdict[tuple[str, Index, str], _Index] = defaultdict(_Index)
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    async def ready(self) -> None:
        self._now_ms()

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        rows = _TreeRows(self, partition, self._now_ms())
        refused = rows.failing(program)
        if refused is not None:
            return refused
        try:
            return Applied(rows.now_ms, rows.apply(program))
        except TooLong as bound:
            return Refused(rows.now_ms, {}, too_long=str(bound))

    async def decide(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool) -> _Answer:
        return decide(_TreeRows(self, partition, self._now_ms()), decision)

    async def page(
        self,
        partition: Partition,
        index: Index,
        key: str,
        *,
        after: _Line | None,
        limit: int,
        descending: bool = False,
        with_rows: bool = False,
    ) -> tuple[int, Sequence[Entry]]:
        now_ms = self._now_ms()
        tree = self.tree(partition)
        lines = islice(self._index(partition, tree, index, key).behind(after, descending=descending), limit)
        return now_ms, [
            Entry(entry_id, at, tree.rows.get(Ref(Kind.NODE, named_node(entry_id))) if with_rows else None)
            for at, entry_id in lines
        ]

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int, levels: int | None = None
    ) -> tuple[int, Sequence[Entry]]:
        now_ms = self._now_ms()
        return now_ms, list(islice(_below(self.tree(partition), starts, levels), max_nodes))

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        now_ms = self._now_ms()
        entries = self._tenant_wide[tenant, index, key]
        due = [Entry(entry_id, at) for at, entry_id in islice(entries.lines, limit) if at <= now_ms]
        for each in due:
            entries.file(each.id, now_ms + hide_ms)
        return due

    async def tenants(self) -> Sequence[str]:
        self._now_ms()
        return sorted(
            {tenant for (tenant, index, _), found in self._tenant_wide.items() if index is Index.ENDS and found.lines}
        )

    # ---- Within a primitive ----

    def _now_ms(self) -> int:
        if not self._open:
            raise StoreUnavailable("The store is closed.")
        return self._clock.now_ms()

    def _index(self, partition: Partition, tree: _Tree, index: Index, key: str) -> _Index:
        if index in TENANT_WIDE:
            return self._tenant_wide[partition.tenant, index, key]
        return tree.indexes[index, key]

    def tree(self, partition: Partition) -> _Tree:
        """The rows of a partition; kept from the first change on."""
        return self._trees.get(partition) or _Tree()

    def keep(self, partition: Partition, tree: _Tree) -> None:
        """Keeps the rows of a partition that is changed."""
        self._trees[partition] = tree

    def change_entry(self, partition: Partition, change: File | Unfile, now_ms: int) -> None:
        """Writes an entry or takes it away."""
        entries = self._index(partition, self.tree(partition), change.of, change.key)
        if isinstance(change, Unfile):
            entries.unfile(change.id)
        else:
            entries.file(change.id, now_ms + change.at.plus_ms if isinstance(change.at, Now) else change.at)


_NO_ROW = Row({})


class _TreeRows:
    """Implements `rows.local.LocalRows`: one step on the rows of a tree."""

    __slots__ = ("_backend", "_partition", "_tree", "now_ms")

    def __init__(self, backend: MemoryRows, partition: Partition, now_ms: int) -> None:
        self._backend = backend
        self._partition = partition
        self._tree = backend.tree(partition)
        self.now_ms = now_ms

    def row(self, ref: Ref) -> Row | None:
        return self._tree.rows.get(ref)

    whole_row = row

    def has_fewer(self, fewer: Fewer) -> bool:
        return len(self._tree.indexes[fewer.of, fewer.key].lines) < fewer.bound

    def failing(self, program: Program) -> Refused | None:
        """The rows whose guards do not hold."""
        failing: dict[Ref, Row | None] = {}
        crowded = False
        for guard in program.guards:
            if isinstance(guard, Fewer):
                crowded = crowded or not self.has_fewer(guard)
            elif not holds(guard, row := self.row(guard.ref), self.now_ms):
                failing[guard.ref] = row
        return Refused(self.now_ms, failing, crowded=crowded) if failing or crowded else None

    def apply(self, program: Program) -> Sequence[Any]:
        tree, now_ms = self._tree, self.now_ms
        chains = iter([_read_chain(tree, read, now_ms) for read in program.reads if type(read) is Chain])
        if program.changes:
            self._backend.keep(self._partition, tree)
        for change in program.changes:
            if type(change) is File or type(change) is Unfile:
                self._backend.change_entry(self._partition, change, now_ms)
            else:
                _CHANGES[type(change)](tree, change, now_ms)
        return [next(chains) if type(read) is Chain else _read(tree, read) for read in program.reads]


def _put(tree: _Tree, change: Put, now_ms: int) -> None:
    ref, fields, items, body = change
    version = next_version(None, fields)
    tree.rows[ref] = Row({**made(fields, now_ms), "v": version}, items, body)


def _set(tree: _Tree, change: Set, now_ms: int) -> None:
    ref, fields, items, body = change
    row = tree.rows.get(ref, _NO_ROW)
    tree.rows[ref] = Row(
        changed(row, fields, now_ms), row.items if items is None else items, row.body if body is None else body
    )


def _delete(tree: _Tree, change: Delete, _now_ms: int) -> None:
    tree.rows.pop(change.ref, None)


def _delete_below(tree: _Tree, change: DeleteBelow, _now_ms: int) -> None:
    kind, prefix = change
    for ref in [each for each in tree.rows if each.kind is kind and each.id.startswith(prefix)]:
        del tree.rows[ref]


def _grow(tree: _Tree, grow: Grow, now_ms: int) -> None:
    parent = tree.rows[Ref(Kind.NODE, grow.parent)] if grow.parent is not None else None
    depth = parent.fields["depth"] + 1 if parent is not None else 0
    fields = made(grow.fields, now_ms)
    fields |= {"v": next_version(None, fields), "depth": depth, "created": now_ms, "updated": now_ms}
    tree.rows[Ref(Kind.NODE, grow.id)] = Row(fields, grow.items, grow.body)
    if grow.parent is not None:
        tree.indexes[Index.CHILDREN, grow.parent].file(grow.id, now_ms)
    if fields.get("session") is not None:
        tree.indexes[Index.MADE, fields["session"]].file(made_id(depth, grow.id), now_ms)


_CHANGES: dict[type, Callable[[_Tree, Any, int], None]] = {
    Put: _put,
    Set: _set,
    Delete: _delete,
    DeleteBelow: _delete_below,
    Grow: _grow,
}


def _read(tree: _Tree, read: Read) -> Any:
    if isinstance(read, Get):
        return tree.rows.get(read.ref)
    assert isinstance(read, Range)  # noqa: S101 - chains were read before
    return _read_range(tree, read)


def _read_chain(tree: _Tree, read: Chain, now_ms: int) -> list[tuple[str, Row]]:
    step: str | None = read.start
    if read.from_head:
        session = tree.rows.get(Ref(Kind.SESSION, read.start), _NO_ROW)
        step = session.fields.get("head")
    node = tree.rows.get(Ref(Kind.NODE, step)) if step else None
    if node is None or not _is_ahead(node.fields["expires"], now_ms):
        return []
    if node.fields["depth"] + 1 > read.max_depth:
        raise TooLong("depth")
    with_bodies = read.payload is Payload.ALL
    chain, used = [], 0 if with_bodies else 1
    while step is not None:
        node = tree.rows[Ref(Kind.NODE, step)]
        used += node.fields["size"] if with_bodies else len(node.items) + 1 if node.items else 0
        chain.append((step, node))
        step = node.fields["parent"]
    if used > read.max_bytes:
        raise TooLong("bytes")
    chain.reverse()
    return chain


def _is_ahead(expires: int | None, now_ms: int) -> bool:
    return expires is None or expires > now_ms


def _read_range(tree: _Tree, read: Range) -> list[tuple[str, Row]]:
    ids = sorted(ref.id for ref in tree.rows if ref.kind is read.kind and ref.id.startswith(read.prefix))
    found, used = [], 0
    for row_id in ids[max(0, bisect_right(ids, read.start) - 1) :]:
        row = tree.rows[Ref(read.kind, row_id)]
        found.append((row_id, row))
        used += len(row.items)
        if used >= read.max_bytes:
            break
    return found


def _below(tree: _Tree, starts: Sequence[str], levels: int | None) -> Iterator[Entry]:
    """Nodes and what is below them."""
    waiting = [(each, levels) for each in starts]
    while waiting:
        each, left = waiting.pop()
        row = tree.rows.get(Ref(Kind.NODE, each))
        if row is None:
            continue
        yield Entry(each, 0, row)
        if left != 0:
            rest = None if left is None else left - 1
            waiting.extend((child, rest) for _at, child in tree.indexes[Index.CHILDREN, each].lines)
