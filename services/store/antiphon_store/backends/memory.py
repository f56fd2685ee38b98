"""A backend with rows in dictionaries, which are lost when the process ends.

A step is synchronous code in the event loop, and therefore indivisible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.errors import StoreUnavailable
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.local import LocalBackend
from antiphon_store.rows.local_reads import NamedRow
from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import NO_ROW, TENANT_WIDE, Entry, Index, Kind, Partition, Payload, Ref, Row, Span, Value
from antiphon_store.rows.view import Decision

SHORT_LIST_LINES = 8  # an index of so many entries is searched without a dictionary

_Line = tuple[int, str]  # time and id
_Answer = TypeVar("_Answer")


class _Index:
    """The entries under one key, in order and by id."""

    __slots__ = ("lines", "times")

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self.times: dict[str, int] | None = None  # id -> time; None for a short list, to save memory: most are short

    def file(self, entry_id: str, at: int, *, is_new: bool) -> None:
        if not is_new and self.lines:
            self.unfile(entry_id)
        insort(self.lines, (at, entry_id))
        if self.times is not None:
            self.times[entry_id] = at
        elif len(self.lines) > SHORT_LIST_LINES:
            self.times = {each: when for when, each in self.lines}

    def unfile(self, entry_id: str) -> None:
        at = self.times.pop(entry_id, None) if self.times is not None else None
        if self.times is None:
            for when, each in self.lines:
                if each == entry_id:
                    at = when
        if at is not None:
            del self.lines[bisect_left(self.lines, (at, entry_id))]

    def select(self, span: Span) -> Sequence[_Line]:
        """The lines that a span selects."""
        limit, after, is_descending = span
        if is_descending:
            end = len(self.lines) if after is None else bisect_left(self.lines, after)
            return self.lines[max(0, end - limit) : end][::-1]
        begin = 0 if after is None else bisect_right(self.lines, after)
        return self.lines[begin : begin + limit]


class Tree:
    """The rows of one partition, and its indexes."""

    def __init__(self) -> None:
        self.rows: dict[Ref, Row] = {}
        self.indexes: defaultdict[tuple[Index, str], _Index] = defaultdict(_Index)


class MemoryRows(LocalBackend):
    """The trees of all tenants in memory. Implements `rows.backend.RowBackend`."""

    durability = Durability.MEMORY

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.trees: dict[Partition, Tree] = {}
        self.tenant_wide: defaultdict[tuple[str, Index, str], _Index] = defaultdict(_Index)
        self._now_ms: Callable[[], int] = _raise_closed

    async def open(self) -> None:
        self._now_ms = self._clock.now_ms

    async def close(self) -> None:
        self._now_ms = _raise_closed

    async def ready(self) -> None:
        self._now_ms()

    async def tenants(self) -> Sequence[str]:
        self._now_ms()
        return sorted(
            {tenant for (tenant, index, _), found in self.tenant_wide.items() if index is Index.ENDS and found.lines}
        )

    async def decide(
        self,
        partition: Partition,
        decision: Decision[_Answer],
        *,
        only_reads: bool = False,
        payload: Payload = Payload.ALL,
    ) -> _Answer:
        return _TreeRows(self, partition, self._now_ms()).decide(decision)

    async def step(self, partition: Partition, work: Callable[[LocalRows], _Answer], *, only_reads: bool) -> _Answer:
        return work(_TreeRows(self, partition, self._now_ms()))


def _raise_closed() -> int:
    raise StoreUnavailable("The store is closed.")


class _TreeRows(LocalRows):
    """The rows of one tree during a step. A tree is kept while it has rows or index entries."""

    __slots__ = ("_backend", "_partition", "_tree", "row", "whole_row")

    row: Callable[[Ref], Row | None]
    whole_row: Callable[[Ref], Row | None]

    def __init__(self, backend: MemoryRows, partition: Partition, now_ms: int) -> None:
        super().__init__(now_ms)
        self._backend = backend
        self._partition = partition
        self._tree = backend.trees.get(partition) or Tree()
        self.row = self.whole_row = self._tree.rows.get

    def scan(self, kind: Kind, prefix: str, start: str) -> Iterator[NamedRow]:
        ids = sorted(ref.id for ref in self._tree.rows if ref.kind is kind and ref.id.startswith(prefix))
        for row_id in ids[max(0, bisect_right(ids, start) - 1) :]:
            yield row_id, self._tree.rows[Ref(kind, row_id)]

    def write(self, ref: Ref, fields: Mapping[str, Value], items: bytes | None, body: bytes | None) -> None:
        former = self._tree.rows.get(ref, NO_ROW)
        self._tree.rows[ref] = Row(
            fields, former.items if items is None else items, former.body if body is None else body
        )

    def add_node(
        self, node_id: str, _parent: str | None, fields: Mapping[str, Value], items: bytes, body: bytes
    ) -> None:
        self._tree.rows[Ref(Kind.NODE, node_id)] = Row(fields, items, body)

    def remove(self, ref: Ref) -> None:
        self._tree.rows.pop(ref, None)

    def remove_below(self, kind: Kind, prefix: str) -> None:
        for ref in [each for each in self._tree.rows if each.kind is kind and each.id.startswith(prefix)]:
            del self._tree.rows[ref]

    def entries(self, index: Index, key: str, span: Span) -> Sequence[Entry]:
        indexes, name = self._indexes(index, key)
        if name not in indexes:
            return []
        return [Entry(entry_id, at) for at, entry_id in indexes[name].select(span)]

    def file(self, index: Index, key: str, entry_id: str, at_ms: int, *, is_new: bool = False) -> None:
        if index in TENANT_WIDE:
            found = self._backend.tenant_wide[self._partition.tenant, index, key]
        else:
            found = self._tree.indexes[index, key]
        found.file(entry_id, at_ms, is_new=is_new)

    def unfile(self, index: Index, key: str, entry_id: str) -> None:
        indexes, name = self._indexes(index, key)
        if name in indexes:
            indexes[name].unfile(entry_id)
            if not indexes[name].lines:
                del indexes[name]

    def end_changes(self) -> None:
        if self._tree.rows or self._tree.indexes:
            self._backend.trees[self._partition] = self._tree
        else:
            self._backend.trees.pop(self._partition, None)

    def _indexes(self, index: Index, key: str) -> tuple[defaultdict[Any, _Index], tuple[str, ...]]:
        """The indexes that hold the entries under a key, and the name of the key in them."""
        if index in TENANT_WIDE:
            return self._backend.tenant_wide, (self._partition.tenant, index, key)
        return self._tree.indexes, (index, key)
