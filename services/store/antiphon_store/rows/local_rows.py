"""Executes decisions and programs on rows in this process.

A backend in memory or in a local file adds how a row and an entry are found and written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from antiphon_store.rows.model import (
    NO_ROW,
    Applied,
    Chain,
    ChainRows,
    Condition,
    Delete,
    DeleteBelow,
    Entry,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Now,
    Outcome,
    Payload,
    Program,
    Put,
    Range,
    Read,
    Ref,
    Refused,
    Row,
    Set,
    Span,
    Unfile,
    Value,
    changed,
    holds,
    listed,
    made,
    made_id,
    meets,
)
from antiphon_store.rows.view import Decision, Finish, View, require_whole_chains

NamedRow = tuple[str, Row]

_Answer = TypeVar("_Answer")
_SIZE = itemgetter("size")

CHAIN_PART_NODES = 256
"""The number of nodes of a chain that are read between two checks of its `max_bytes`."""
CHILDREN_PART_NODES = 256
"""The number of children of a node that a walk reads at once."""


class TooLong(Exception):
    """A chain exceeds the bound that the text names: "depth" or "bytes"."""


class LocalRows(ABC):
    """The rows of a partition during one step, whose time is `now_ms`."""

    __slots__ = ("_grown", "has_changed", "now_ms")

    faults: ClassVar[tuple[type[Exception], ...]] = ()
    """The error classes of the database. One of these errors undoes the step."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.has_changed = False  # whether an error must undo changes
        self._grown: str | None = None  # the last new node, whose entries are all new

    # ---- Implemented by a backend ----

    @abstractmethod
    def row(self, ref: Ref) -> Row | None:
        """A row with the changes so far, perhaps without its payloads."""

    def whole_row(self, ref: Ref) -> Row | None:
        """A row with the changes so far and its payloads."""
        return self.row(ref)

    def nodes(self, node_ids: Sequence[str], payload: Payload) -> list[Row | None]:
        """Nodes in this order, perhaps with more payloads than `payload`."""
        read = self.whole_row if payload else self.row
        return [read(Ref(Kind.NODE, each)) for each in node_ids]

    @abstractmethod
    def scan(self, kind: Kind, prefix: str, start: str) -> Iterator[NamedRow]:
        """The rows of a `Range` in its order, with payloads and without its `max_bytes`."""

    def ancestors(self, node_id: str, payload: Payload) -> Iterator[ChainRows]:
        """A node that exists and its ancestors, from the node up to its root, in parts."""
        step: str | None = node_id
        part: list[tuple[Any, ...]] = []
        while step is not None and (node := self.row(Ref(Kind.NODE, step))) is not None:
            part.append((step, *node) if payload else (step, node.fields, b"", b""))
            if len(part) == CHAIN_PART_NODES:
                yield ChainRows(*zip(*part, strict=True))
                part = []
            step = node.fields["parent"]
        if part:
            yield ChainRows(*zip(*part, strict=True))

    @abstractmethod
    def write(self, ref: Ref, fields: Mapping[str, Value], items: bytes | None, body: bytes | None) -> None:
        """Writes a row. Payloads that are None stay as they are, and are empty in a new row."""

    def add_node(
        self, node_id: str, _parent: str | None, fields: Mapping[str, Value], items: bytes, body: bytes
    ) -> None:
        """Writes a new row of kind NODE."""
        self.write(Ref(Kind.NODE, node_id), fields, items, body)

    @abstractmethod
    def remove(self, ref: Ref) -> None:
        """Deletes a row, if it exists."""

    @abstractmethod
    def remove_below(self, kind: Kind, prefix: str) -> None:
        """Deletes the rows of a kind whose ids begin with a prefix."""

    @abstractmethod
    def entries(self, index: Index, key: str, span: Span) -> Sequence[Entry]:
        """The entries under a key."""

    @abstractmethod
    def file(self, index: Index, key: str, entry_id: str, at_ms: int, *, is_new: bool = False) -> None:
        """Writes an entry, or moves it. `is_new`: it does not exist yet."""

    @abstractmethod
    def unfile(self, index: Index, key: str, entry_id: str) -> None:
        """Removes an entry, if it exists."""

    def list_node(self, node_id: str, fields: Mapping[str, Value], former: Mapping[str, Value] | None) -> None:
        """Files the entries of a node in NODE_LISTS, in place of those that it had with its `former` fields."""
        if former is not None:
            if listed(node_id, former) == listed(node_id, fields):
                return
            self.unlist_node(node_id, former)
        for index, entry_id, at in listed(node_id, fields):
            self.file(index, "", entry_id, at, is_new=True)

    def unlist_node(self, node_id: str, fields: Mapping[str, Value]) -> None:
        """Removes the entries of a node in NODE_LISTS."""
        for index, entry_id, _ in listed(node_id, fields):
            self.unfile(index, "", entry_id)

    def end_changes(self) -> None:  # noqa: B027 - most have nothing to do then
        """Called after the last change of a program."""

    # ---- Programs ----

    def decide(self, decision: Decision[_Answer]) -> _Answer:
        """Runs a decision and applies its program. An error of the decision itself has changed nothing."""
        refused = Refused(self.now_ms, {})
        while True:  # ends: a decision raises if its view says that a bound was exceeded
            view = _LocalView(self, refused)
            finish = decision(view)
            program = view.program()
            if program.guards and not all(self.has_fewer(each) for each in program.guards if isinstance(each, Fewer)):
                refused = Refused(self.now_ms, {}, crowded=True)
                continue
            try:
                answers = self.apply(program)
                require_whole_chains(answers)
                return finish(answers)
            except TooLong as bound:
                refused = Refused(self.now_ms, {}, too_long=str(bound))

    def has_fewer(self, fewer: Fewer) -> bool:
        return len(self.entries(fewer.of, fewer.key, Span(fewer.bound))) < fewer.bound

    def run(self, program: Program) -> Outcome:
        """Applies a program, or changes nothing and returns the reason."""
        guards = [each for each in program.guards if isinstance(each, Guard)]
        failing = [each.ref for each in guards if not holds(each, self.row(each.ref), self.now_ms)]
        is_crowded = not all(self.has_fewer(each) for each in program.guards if isinstance(each, Fewer))
        if failing or is_crowded:
            return Refused(self.now_ms, {ref: self.whole_row(ref) for ref in failing}, crowded=is_crowded)
        try:
            return Applied(self.now_ms, self.apply(program))
        except TooLong as bound:
            return Refused(self.now_ms, {}, too_long=str(bound))

    def apply(self, program: Program) -> Sequence[Any]:
        """Applies a program whose guards hold. TooLong: a chain exceeds a bound, and nothing was changed."""
        answers: list[Any] = [None] * len(program.reads)
        for place, read in enumerate(program.reads):
            if type(read) is Chain:
                answers[place] = self._chain(read)
        if program.changes:
            self.has_changed = True
            for change in program.changes:
                _CHANGES[type(change)](self, change)
            self.end_changes()
        for place, read in enumerate(program.reads):
            if type(read) is Get:
                answers[place] = self.whole_row(read.ref) if read.payload else self.row(read.ref)
            elif type(read) is Range:
                answers[place] = self._range(read)
        return answers

    def below(self, starts: Sequence[str]) -> Iterator[Entry]:
        """Nodes and all nodes below them. Reads a node's children only when its caller asks for more."""
        waiting: list[Iterator[str]] = [iter(starts)]
        while waiting:
            node_id = next(waiting[-1], None)
            if node_id is None:
                waiting.pop()
            elif (row := self.row(Ref(Kind.NODE, node_id))) is not None:
                yield Entry(node_id, 0, row)
                waiting.append(self._children_of(node_id))

    def _children_of(self, parent_id: str) -> Iterator[str]:
        after = None
        while True:
            found = self.entries(Index.CHILDREN, parent_id, Span(CHILDREN_PART_NODES, after))
            yield from (each.id for each in found)
            if len(found) < CHILDREN_PART_NODES:
                return
            after = (found[-1].at, found[-1].id)

    def children(self, parents: Sequence[str], max_nodes: int) -> list[Entry]:
        """The first children of nodes, one parent after the other."""
        found: list[Entry] = []
        for parent in parents:
            entries = self.entries(Index.CHILDREN, parent, Span(max_nodes - len(found)))
            rows = self.nodes([each.id for each in entries], Payload.NONE)
            found += [each._replace(row=row) for each, row in zip(entries, rows, strict=True) if row is not None]
            if len(found) >= max_nodes:
                break
        return found

    def links_above(self, node_ids: Sequence[str], depth: int) -> dict[str, tuple[str | None, int]]:
        """The parent and the depth of nodes, and of their ancestors down from `depth`."""
        links: dict[str, tuple[str | None, int]] = {}
        for node_id in node_ids:
            step: str | None = node_id
            while step is not None and step not in links and (row := self.row(Ref(Kind.NODE, step))) is not None:
                links[step] = row.fields["parent"], row.fields["depth"]
                step = row.fields["parent"] if row.fields["depth"] > depth else None
        return links

    def take_due(self, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        """Takes the first entries whose time has come, and moves each to `hide_ms` from now."""
        due = [each for each in self.entries(index, key, Span(limit)) if each.at <= self.now_ms]
        for each in due:
            self.file(index, key, each.id, self.now_ms + hide_ms)
        return due

    def _chain(self, read: Chain) -> ChainRows:
        """A node and its ancestors, root first."""
        start: str | None = read.start
        if read.from_head:
            start = (self.row(Ref(Kind.SESSION, read.start)) or NO_ROW).fields.get("head")
        node = self.row(Ref(Kind.NODE, start)) if start is not None else None
        if start is None or node is None or not meets(Condition.AHEAD, "expires", None, node, self.now_ms):
            return ChainRows()
        if node.fields["depth"] + 1 > read.max_depth:
            raise TooLong("depth")
        with_bodies = read.payload is Payload.ALL
        parts, used = [], 0 if with_bodies else 1
        for part in self.ancestors(start, read.payload):
            if with_bodies:
                used += sum(map(_SIZE, part.fields))
            else:
                used += sum(map(len, part.items)) + len(part.items) - part.items.count(b"")
            if used > read.max_bytes:
                raise TooLong("bytes")
            parts.append(part)
        return ChainRows(*([*chain.from_iterable(columns)][::-1] for columns in zip(*parts, strict=True)))

    def _range(self, read: Range) -> list[NamedRow]:
        found, used = [], 0
        for row_id, row in self.scan(read.kind, read.prefix, read.start):
            found.append((row_id, row))
            used += len(row.items)
            if used >= read.max_bytes:
                break
        return found

    def put(self, change: Put) -> None:
        ref, fields, items, body = change
        self.write(ref, made(fields, self.now_ms), items, body)

    def set(self, change: Set) -> None:
        ref, fields, items, body = change
        former = self.row(ref)
        stored = changed(former, fields, self.now_ms)
        if ref.kind is Kind.NODE and former is not None:
            self.list_node(ref.id, stored, former.fields)
        self.write(ref, stored, items, body)

    def delete(self, change: Delete) -> None:
        row = self.row(change.ref) if change.ref.kind is Kind.NODE else None
        if row is not None:
            self.unlist_node(change.ref.id, row.fields)
        self.remove(change.ref)

    def grow(self, grow: Grow) -> None:
        node_id, parent_id, values, items, body = grow
        parent = self.row(Ref(Kind.NODE, parent_id)) if parent_id is not None else None
        depth = parent.fields["depth"] + 1 if parent is not None else 0
        fields = made(values, self.now_ms)
        fields |= {"depth": depth, "created": self.now_ms, "updated": self.now_ms}
        self.add_node(node_id, parent_id, fields, items, body)
        self._grown = node_id
        self.list_node(node_id, fields, None)
        if parent_id is not None:
            self.file(Index.CHILDREN, parent_id, node_id, self.now_ms, is_new=True)
        if fields.get("session") is not None:
            self.file(Index.MADE, fields["session"], made_id(depth, node_id), self.now_ms, is_new=True)

    def file_at(self, change: File) -> None:
        index, key, entry_id, at = change
        at_ms = self.now_ms + at.plus_ms if isinstance(at, Now) else at
        self.file(index, key, entry_id, at_ms, is_new=entry_id == self._grown)


class _LocalView(View):
    """A view that knows every row."""

    __slots__ = ("_rows",)

    def __init__(self, rows: LocalRows, refused: Refused) -> None:
        super().__init__({}, refused)
        self._rows = rows

    def test(self, kind: Kind, row_id: str, test: Condition, field: str = "", value: Value = None) -> bool:
        return meets(test, field, value, self._rows.row(Ref(kind, row_id)), self.now_ms)

    def need(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.whole_row(Ref(kind, row_id))

    def need_all(self, *refs: tuple[Kind, str]) -> list[Row | None]:
        return [self._rows.whole_row(Ref(*each)) for each in refs]

    def peek(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.row(Ref(kind, row_id))

    def answer_from(self, make: Callable[..., _Answer], *reads: Read) -> Finish[_Answer]:
        for read in reads:
            if type(read) is Get and read.payload:
                self._rows.whole_row(read.ref)  # so that a later test of it does not read it without payloads first
        return super().answer_from(make, *reads)


_CHANGES: dict[type, Callable[[LocalRows, Any], None]] = {
    Put: LocalRows.put,
    Set: LocalRows.set,
    Delete: LocalRows.delete,
    DeleteBelow: lambda rows, change: rows.remove_below(*change),
    Grow: LocalRows.grow,
    File: LocalRows.file_at,
    Unfile: lambda rows, change: rows.unfile(*change[:3]),
}
