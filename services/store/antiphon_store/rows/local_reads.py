"""Reads of rows in this process: single rows, entries, chains, ranges and parts of trees.

A backend in memory or in a local file adds how a row and an entry are found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from antiphon_core import damage
from antiphon_core.limits import LINEAGE_READ_BYTES_MAX
from antiphon_store.rows.model import (
    NO_ROW,
    Chain,
    ChainRows,
    Condition,
    Entry,
    Fewer,
    Index,
    Kind,
    Payload,
    Range,
    Ref,
    Row,
    Span,
)
from antiphon_store.rows.view import meets

NamedRow = tuple[str, Row]

_SIZE = itemgetter("size")

CHAIN_PART_NODES = 256
"""The number of nodes of a chain that are read between two checks of its `max_bytes`."""
LINEAGES_PART_NODES = 64
"""The number of lineages that are read between two checks of their bytes: of 0.9 KB, nearly all that are taken."""
CHILDREN_PART_NODES = 256
"""The number of children of a node that a walk reads at once."""


class TooLong(Exception):
    """A chain exceeds the bound that the text names: "depth" or "bytes"."""


class LocalReads(ABC):
    """Reads of the rows of a partition during one step, whose time is `now_ms`."""

    __slots__ = ("now_ms",)

    now_ms: int

    # ---- Implemented by a backend ----

    @abstractmethod
    def row(self, ref: Ref, /) -> Row | None:
        """A row with the changes so far, perhaps without its payloads."""

    def whole_row(self, ref: Ref, /) -> Row | None:
        """A row with the changes so far and its payloads."""
        return self.row(ref)

    def nodes(self, node_ids: Sequence[str], payload: Payload) -> list[Row | None]:
        """Nodes in this order, perhaps with more payloads than `payload`."""
        read = self.whole_row if payload else self.row
        return [read(Ref(Kind.NODE, each)) for each in node_ids]

    def lineages(self, node_ids: Sequence[str]) -> list[bytes]:
        """The lineages of nodes in this order, empty for a node without one."""
        return [(self.whole_row(Ref(Kind.LINEAGE, each)) or NO_ROW).items for each in node_ids]

    @abstractmethod
    def scan(self, kind: Kind, prefix: str, start: str) -> Iterator[NamedRow]:
        """The rows of a `Range` in its order, with payloads and without its `max_bytes`."""

    def ancestors(self, node_id: str, payload: Payload) -> Iterator[ChainRows]:
        """A node that exists and its ancestors, from the node up to its root, in parts."""
        step: str | None = node_id
        part: list[tuple[Any, ...]] = []
        while step is not None and (node := self.row(Ref(Kind.NODE, step))) is not None:
            part.append(self._columns(step, node, payload))
            if len(part) == CHAIN_PART_NODES:
                yield ChainRows(*zip(*part, strict=True))
                part = []
            step = node.fields["parent"]
        if part:
            yield ChainRows(*zip(*part, strict=True))

    def _columns(self, node_id: str, node: Row, payload: Payload) -> tuple[Any, ...]:
        """The line of a node in `ChainRows`."""
        if payload is Payload.LINEAGE:
            return node_id, node.fields, node.items, b""
        return (node_id, *node) if payload else (node_id, node.fields, b"", b"")

    @abstractmethod
    def entries(self, index: Index, key: str, span: Span) -> Sequence[Entry]:
        """The entries under a key."""

    # ---- Reads of several rows ----

    def has_fewer(self, fewer: Fewer) -> bool:
        return len(self.entries(fewer.of, fewer.key, Span(fewer.bound))) < fewer.bound

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

    def chain(self, read: Chain) -> ChainRows:
        """A node and its ancestors, root first."""
        start: str | None = read.start
        if read.starts_at_head:
            start = (self.row(Ref(Kind.SESSION, read.start)) or NO_ROW).fields.get("head")
        node = self.row(Ref(Kind.NODE, start)) if start is not None else None
        if start is None or node is None or not meets(Condition.AHEAD, "expires", None, node, self.now_ms):
            return ChainRows()
        if node.fields["depth"] + 1 > read.max_depth:
            raise TooLong("depth")
        with_bodies = read.payload is Payload.ALL
        parts, used, count = [], 0 if with_bodies else 1, 0
        with damage.reading(f"the history of '{start}'"):
            for part in self.ancestors(start, read.payload):
                count += len(part.ids)
                if count > node.fields["depth"] + 1:  # one names a descendant as its parent, without an end
                    raise LookupError
                if with_bodies:
                    used += sum(map(_SIZE, part.fields))
                else:
                    used += sum(map(len, part.items)) + len(part.items) - part.items.count(b"")
                if used > read.max_bytes:
                    raise TooLong("bytes")
                parts.append(part)
        found = ChainRows(*([*chain.from_iterable(columns)][::-1] for columns in zip(*parts, strict=True)))
        return found._replace(bodies=self._lineages(found.ids)) if read.payload is Payload.LINEAGE else found

    def _lineages(self, ids: Sequence[str]) -> list[bytes]:
        """The lineages of a chain, root first: the first ones up to LINEAGE_READ_BYTES_MAX, and the last one."""
        found: list[bytes] = []
        used = 0
        while len(found) < len(ids) and used <= LINEAGE_READ_BYTES_MAX:
            part = self.lineages(ids[len(found) : len(found) + LINEAGES_PART_NODES])
            used += sum(map(len, part))
            found += part
        if len(found) < len(ids):
            found += [b""] * (len(ids) - len(found) - 1)
            found += self.lineages(ids[-1:])
        return found

    def range(self, read: Range) -> list[NamedRow]:
        found, used = [], 0
        for row_id, row in self.scan(read.kind, read.prefix, read.start):
            found.append((row_id, row))
            used += len(row.items)
            if used >= read.max_bytes:
                break
        return found
