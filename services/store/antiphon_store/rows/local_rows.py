"""Executes decisions and programs on rows in this process.

A backend in memory or in a local file adds how a row and an entry are found and written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from antiphon_store.rows.local_reads import LocalReads, TooLong
from antiphon_store.rows.model import (
    Add,
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
    Program,
    Put,
    Range,
    Ref,
    Rejection,
    Row,
    Set,
    Span,
    Unfile,
    Value,
    level_id,
    made_id,
)
from antiphon_store.rows.view import Decision, View, holds, meets, require_whole

_Answer = TypeVar("_Answer")


class LocalRows(LocalReads):
    """The rows of a partition during one step, whose time is `now_ms`."""

    __slots__ = ("_grown", "has_changed")

    faults: ClassVar[tuple[type[Exception], ...]] = ()
    """The error classes of the database. One of these errors undoes the step."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.has_changed = False  # whether an error must undo changes
        self._grown: tuple[str, ...] = ()  # the ids that entries of the last new node have: they are all new

    # ---- Implemented by a backend ----

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
    def file(self, index: Index, key: str, entry_id: str, at_ms: int, *, is_new: bool = False) -> None:
        """Writes an entry, or moves it. `is_new`: it does not exist yet."""

    @abstractmethod
    def unfile(self, index: Index, key: str, entry_id: str) -> None:
        """Removes an entry, if it exists."""

    def list_node(self, node_id: str, fields: Mapping[str, Value], former: Mapping[str, Value] | None) -> None:
        """Files the entries of a node in NODE_LISTS, in place of those that it had with its `former` fields."""
        if former is not None:
            if index_entries(node_id, former) == index_entries(node_id, fields):
                return
            self.unlist_node(node_id, former)
        for index, entry_id, at in index_entries(node_id, fields):
            self.file(index, "", entry_id, at, is_new=True)

    def unlist_node(self, node_id: str, fields: Mapping[str, Value]) -> None:
        """Removes the entries of a node in NODE_LISTS."""
        for index, entry_id, _ in index_entries(node_id, fields):
            self.unfile(index, "", entry_id)

    def end_changes(self) -> None:
        """Called after the last change of a program."""

    # ---- Programs ----

    def _is_crowded(self, program: Program) -> bool:
        """Whether a guard that limits the entries of an index fails."""
        return not all(self.has_fewer(each) for each in program.guards if isinstance(each, Fewer))

    def decide(self, decision: Decision[_Answer]) -> _Answer:
        """Runs a decision and applies its program. An error of the decision itself has changed nothing."""
        rejection = Rejection(self.now_ms, {})
        while True:  # ends: a decision raises if its view says that a bound was exceeded
            view = _LocalView(self, rejection)
            finish = decision(view)
            program = view.program()
            if program.guards and self._is_crowded(program):
                rejection = Rejection(self.now_ms, {}, is_crowded=True)
                continue
            try:
                answers = self.apply(program)
                for each in answers:
                    if isinstance(each, ChainRows):
                        require_whole(each)
                return finish(answers)
            except TooLong as bound:
                rejection = Rejection(self.now_ms, {}, too_long=str(bound))

    def run(self, program: Program) -> Outcome:
        """Applies a program, or changes nothing and returns the reason."""
        guards = [each for each in program.guards if isinstance(each, Guard)]
        failing = [each.ref for each in guards if not holds(each, self.row(each.ref), self.now_ms)]
        is_crowded = self._is_crowded(program)
        if failing or is_crowded:
            return Rejection(self.now_ms, {ref: self.whole_row(ref) for ref in failing}, is_crowded=is_crowded)
        try:
            return Applied(self.now_ms, self.apply(program))
        except TooLong as bound:
            return Rejection(self.now_ms, {}, too_long=str(bound))

    def apply(self, program: Program) -> Sequence[Any]:
        """Applies a program whose guards hold. TooLong: a chain exceeds a bound, and nothing was changed."""
        answers: list[Any] = [None] * len(program.reads)
        for place, read in enumerate(program.reads):
            if type(read) is Chain:
                answers[place] = self.chain(read)
        if program.changes:
            self.has_changed = True
            for change in program.changes:
                _CHANGES[type(change)](self, change)
            self.end_changes()
        for place, read in enumerate(program.reads):
            if type(read) is Get:
                answers[place] = self.whole_row(read.ref) if read.payload else self.row(read.ref)
            elif type(read) is Range:
                answers[place] = self.range(read)
        return answers

    def take_due(self, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        """Takes the first entries whose time has come, and moves each to `hide_ms` from now."""
        due = [each for each in self.entries(index, key, Span(limit)) if each.at <= self.now_ms]
        for each in due:
            self.file(index, key, each.id, self.now_ms + hide_ms)
        return due

    def put(self, change: Put) -> None:
        ref, fields, items, body = change
        self.write(ref, change_fields(None, fields, self.now_ms), items, body)

    def set(self, change: Set) -> None:
        ref, fields, items, body = change
        row = self.row(ref)
        former = row.fields if row is not None else None
        stored = change_fields(former, fields, self.now_ms)
        if ref.kind is Kind.NODE and former is not None:
            self.list_node(ref.id, stored, former)
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
        fields = change_fields(None, values, self.now_ms)
        fields |= {"depth": depth, "created": self.now_ms, "updated": self.now_ms}
        self.add_node(node_id, parent_id, fields, items, body)
        self._grown = node_id, f"{Kind.NODE}/{node_id}"
        self.list_node(node_id, fields, None)
        if parent_id is not None:
            self.file(Index.CHILDREN, parent_id, node_id, self.now_ms, is_new=True)
        if fields.get("session") is not None:
            self.file(Index.MADE, fields["session"], made_id(depth, node_id), self.now_ms, is_new=True)

    def file_at(self, change: File) -> None:
        index, key, entry_id, at = change
        at_ms = self.now_ms + at.plus_ms if isinstance(at, Now) else at
        self.file(index, key, entry_id, at_ms, is_new=entry_id in self._grown)


class _LocalView(View):
    """A view that knows every row."""

    __slots__ = ("_rows",)

    def __init__(self, rows: LocalRows, rejection: Rejection) -> None:
        super().__init__({}, rejection)
        self._rows = rows

    def test(self, kind: Kind, row_id: str, test: Condition, field: str = "", value: Value = None) -> bool:
        return meets(test, field, value, self._rows.row(Ref(kind, row_id)), self.now_ms)

    def need(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.whole_row(Ref(kind, row_id))

    def need_all(self, *refs: tuple[Kind, str]) -> list[Row | None]:
        return [self._rows.whole_row(Ref(*each)) for each in refs]

    def peek(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.row(Ref(kind, row_id))

    def plan_read(self, kind: Kind, row_id: str) -> None:
        self._rows.whole_row(Ref(kind, row_id))


# ---- What a change does to a row ----


def change_fields(former: Mapping[str, Value] | None, fields: Mapping[str, Value], now_ms: int) -> dict[str, Value]:
    """The fields of a row after a change of `fields`, with `Now` and `Add` replaced by numbers. `former` is None for a
    new row."""
    stored = {**former, **fields} if former is not None else dict(fields)
    for name, value in fields.items():
        if type(value) is Now:
            stored[name] = now_ms + value.plus_ms
        elif type(value) is Add:
            stored[name] = value.amount + ((former or {}).get(name) or 0)
    stored["v"] = (former or fields).get("v", 0) + 1
    return stored


def index_entries(node_id: str, fields: Mapping[str, Value]) -> tuple[tuple[Index, str, int], ...]:
    """The entries of a node in NODE_LISTS: index, id and `at`."""
    created_ms = fields["created"]
    return (Index.LEVEL, level_id(created_ms, node_id), fields["depth"]), (Index.CREATED, node_id, created_ms)


_CHANGES: dict[type, Callable[[LocalRows, Any], None]] = {
    Put: LocalRows.put,
    Set: LocalRows.set,
    Delete: LocalRows.delete,
    DeleteBelow: lambda rows, change: rows.remove_below(*change),
    Grow: LocalRows.grow,
    File: LocalRows.file_at,
    Unfile: lambda rows, change: rows.unfile(*change[:3]),  # within the step, so `taken_until` is not needed
}
