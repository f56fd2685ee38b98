"""The rows and entries of a partition, in a transaction on one connection."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, repeat
from typing import Any

from antiphon_core import damage
from antiphon_core.jsons import dumps, loads
from antiphon_store.backends.sql_maintenance import BEHIND_ALL
from antiphon_store.rows.local_reads import CHAIN_PART_NODES, NamedRow
from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import (
    NO_ROW,
    NODE_LISTS,
    TENANT_WIDE,
    ChainRows,
    Entry,
    Index,
    Kind,
    Partition,
    Payload,
    Ref,
    Row,
    Span,
    Value,
    level_id,
    listed_place,
)
from antiphon_store.rows.stored_rows import RowReader

_FIND_TREE = "SELECT number FROM tree WHERE tenant = ? AND tag = ?"
_NEW_TREE = "INSERT OR IGNORE INTO tree (tenant, tag) VALUES (?, ?)"
_DROP_TREE = """
    DELETE FROM tree WHERE number = ?1
        AND NOT EXISTS (SELECT 1 FROM node WHERE tree = ?1)
        AND NOT EXISTS (SELECT 1 FROM row WHERE tree = ?1)
        AND NOT EXISTS (SELECT 1 FROM entry WHERE scope = ?1)
        AND NOT EXISTS (SELECT 1 FROM entry WHERE tree = ?1 AND name IN ('ends', 'queue', 'holder'))
"""

# A place is branch * 2^24 + depth.
_DEPTH_MAX = 2**24 - 1
_FIND_NODE = f"SELECT tree, place, fields FROM node WHERE tree = ({_FIND_TREE}) AND id = ?"  # noqa: S608 - constants, here and below
_READ_NODE = f"SELECT tree, place, fields, items, body FROM node WHERE tree = ({_FIND_TREE}) AND id = ?"  # noqa: S608
_INSERT_NODE = "INSERT INTO node (place, tree, id, fields, items, body) VALUES (?, ?, ?, ?, ?, ?)"
_WRITE_NODE = "UPDATE node SET fields = ?, items = coalesce(?, items), body = coalesce(?, body) WHERE place = ?"
_DELETE_NODE = "DELETE FROM node WHERE place = ?"
_LAST_PLACE = "SELECT coalesce(max(place), 0) FROM node"
_PAYLOADS = {Payload.NONE: "x'', x''", Payload.ITEMS: "items, x''", Payload.ALL: "items, body"}
_CHAIN = {
    payload: f"SELECT id, fields, {columns} FROM node WHERE place BETWEEN ? AND ? ORDER BY place DESC"  # noqa: S608
    for payload, columns in {**_PAYLOADS, Payload.LINEAGE: "items, x''"}.items()
}

# Names all children of a node at once, but reads a node only when it is asked for.
_BELOW = """
    WITH RECURSIVE below (id) AS (
        SELECT id FROM node WHERE tree = ?1 AND id IN (SELECT value FROM json_each(?2))
        UNION ALL
        SELECT entry.id FROM below CROSS JOIN entry ON scope = ?1 AND name = 'children' AND key = below.id
    )
    SELECT node.id, fields FROM below CROSS JOIN node ON tree = ?1 AND node.id = below.id
"""
# CROSS JOIN keeps the order of the loops: parents as given, then the entries of each in the order of their key. Sorting
# would read all children before the first one is returned.
_CHILDREN = """
    SELECT node.id, at, fields FROM json_each(?2) AS parent
    CROSS JOIN entry ON scope = ?1 AND name = 'children' AND entry.key = parent.value
    CROSS JOIN node ON node.tree = ?1 AND node.id = entry.id
    LIMIT ?3
"""
_NAMED = {
    payload: f"""
        SELECT node.id, fields, {columns} FROM json_each(?2) CROSS JOIN node ON tree = ?1 AND node.id = value
    """  # noqa: S608
    for payload, columns in _PAYLOADS.items()
}
_LINEAGES = """
    SELECT row.id, items FROM json_each(?2) CROSS JOIN row ON tree = ?1 AND kind = 'lineage' AND row.id = value
"""
_LINKS = """
    WITH RECURSIVE above (id, parent, depth) AS (
        SELECT node.id, json_extract(CAST(fields AS TEXT), '$.parent'), depth FROM json_each(?2)
        CROSS JOIN node ON tree = ?1 AND node.id = value
        UNION
        SELECT node.id, json_extract(CAST(fields AS TEXT), '$.parent'), node.depth FROM above
        CROSS JOIN node ON tree = ?1 AND node.id = above.parent
        WHERE above.depth > ?3
    )
    SELECT id, parent, depth FROM above
"""

_READ_ROW = f"SELECT tree, 0, fields, items, body FROM row WHERE tree = ({_FIND_TREE}) AND kind = ? AND id = ?"  # noqa: S608
_WRITE_ROW = """
    INSERT INTO row (tree, kind, id, fields, items, body)
    VALUES (?1, ?2, ?3, ?4, coalesce(?5, x''), coalesce(?6, x''))
    ON CONFLICT (tree, kind, id)
    DO UPDATE SET fields = excluded.fields, items = coalesce(?5, items), body = coalesce(?6, body)
"""
_DELETE_ROW = "DELETE FROM row WHERE tree = ? AND kind = ? AND id = ?"
_DELETE_BELOW = "DELETE FROM row WHERE tree = ? AND kind = ? AND id >= ? AND id < ?"
_RANGE = """
    SELECT id, fields, items, body FROM row
    WHERE tree = ?1 AND kind = ?2 AND id >= ?3 AND id < ?4 AND id >= coalesce(
        (SELECT max(id) FROM row WHERE tree = ?1 AND kind = ?2 AND id >= ?3 AND id < ?4 AND id <= ?5), '')
    ORDER BY id
"""

_KEY = "scope = ? AND name = ? AND key = ?"
_UNFILE = f"DELETE FROM entry WHERE {_KEY} AND id = ?"  # noqa: S608
_UNFILE_BY_ID = (
    "DELETE FROM entry WHERE tree = ? AND name = ? AND name IN ('ends', 'queue', 'holder') AND key = ? AND id = ?"
)
_FOUND_BY_ID = frozenset({Index.ENDS, Index.QUEUE, Index.HOLDER})  # `entry_by_id`: a new entry replaces one of its id
_MOVE = f"UPDATE entry SET at = ? WHERE {_KEY} AND at = ? AND id = ?"  # noqa: S608
_NEXT_TENANT = "SELECT scope FROM entry WHERE scope > ? ORDER BY scope LIMIT 1"  # numbers sort before names
_HAS_ENDS = "SELECT 1 FROM entry WHERE scope = ? AND name = 'ends' LIMIT 1"
_ENTRIES_PER_STATEMENT = 100
_READER = RowReader[bytes](loads, lambda texts: loads(b"[%b]" % b",".join(texts)))


class TreeRows(LocalRows):
    """One step on the rows of a partition, with a cache of the rows that it read."""

    __slots__ = ("_connection", "_filed", "_has_emptied", "_number", "_partition", "_places", "_rows", "_whole")

    faults = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection, partition: Partition, now_ms: int) -> None:
        super().__init__(now_ms)
        self._connection = connection
        self._partition = partition
        self._number: int | None = None  # of the tree; None: not read yet, 0: there is no such tree
        self._has_emptied = False  # whether the tree may have lost its last row or entry
        self._rows: dict[Ref, Row | None] = {}
        self._whole: set[Ref] = set()  # nodes to read with their payloads
        self._places: dict[str, int] = {}  # of nodes that were read
        self._filed: dict[tuple[Any, ...], int] = {}  # entries to write: scope, index, key and id -> time

    # ---- Rows ----

    def whole_row(self, ref: Ref, /) -> Row | None:
        if ref.kind is Kind.NODE and ref not in self._whole:
            self._whole.add(ref)
            self._rows.pop(ref, None)
        return self.row(ref)

    def row(self, ref: Ref) -> Row | None:
        try:
            return self._rows[ref]
        except KeyError:
            row = self._rows[ref] = self._load(ref)
            return row

    def _load(self, ref: Ref) -> Row | None:
        if ref.kind is Kind.NODE:
            query = _READ_NODE if ref in self._whole else _FIND_NODE
            found = self._connection.execute(query, (*self._partition, ref.id)).fetchone()
        else:
            found = self._connection.execute(_READ_ROW, (*self._partition, *ref)).fetchone()
        if found is None:
            return None
        self._number, place, fields, *payloads = found
        if ref.kind is Kind.NODE:
            self._places[ref.id] = place
        return _READER.row(ref, fields, *payloads)

    def scan(self, kind: Kind, prefix: str, start: str) -> Iterator[NamedRow]:
        bounds = (self._tree(), kind, prefix, prefix + BEHIND_ALL, start)
        for row_id, fields, items, body in self._connection.execute(_RANGE, bounds):
            yield row_id, _READER.row(Ref(kind, row_id), fields, items, body)

    def ancestors(self, node_id: str, payload: Payload) -> Iterator[ChainRows]:
        """Reads one range of the table for each branch."""
        step: str | None = node_id
        while step is not None and self.row(Ref(Kind.NODE, step)) is not None:
            place = self._places[step]
            found = self._connection.execute(_CHAIN[payload], (place & ~_DEPTH_MAX, place))
            while nodes := found.fetchmany(CHAIN_PART_NODES):
                ids, texts, items, bodies = zip(*nodes, strict=True)
                fields = _READER.chain(ids, texts)
                yield ChainRows(ids, fields, items, bodies)
                step = fields[-1].get("parent")

    def lineages(self, node_ids: Sequence[str]) -> list[bytes]:
        found = dict(self._connection.execute(_LINEAGES, (self._tree(), dumps(node_ids).decode())).fetchall())
        return [found.get(each, b"") for each in node_ids]

    def nodes(self, node_ids: Sequence[str], payload: Payload) -> list[Row | None]:
        found = self._connection.execute(_NAMED[payload], (self._tree(), dumps(node_ids).decode())).fetchall()
        if payload:
            rows = {line[0]: _READER.row(Ref(Kind.NODE, line[0]), *line[1:]) for line in found}
        else:
            rows = {line[0]: Row(fields) for line, fields in zip(found, _fields(found, 1), strict=True)}
        return [rows.get(each) for each in node_ids]

    def children(self, parents: Sequence[str], max_nodes: int) -> list[Entry]:
        found = self._connection.execute(_CHILDREN, (self._tree(), dumps(parents).decode(), max_nodes)).fetchall()
        return [Entry(line[0], line[1], Row(fields)) for line, fields in zip(found, _fields(found, 2), strict=True)]

    def links_above(self, node_ids: Sequence[str], depth: int) -> dict[str, tuple[str | None, int]]:
        found = self._connection.execute(_LINKS, (self._tree(), dumps(node_ids).decode(), depth))
        return {node_id: link for node_id, *link in found.fetchall()}

    def below(self, starts: Sequence[str]) -> Iterator[Entry]:
        found = self._connection.execute(_BELOW, (self._tree(), dumps(starts).decode()))
        while nodes := found.fetchmany(CHAIN_PART_NODES):
            yield from map(Entry, [each[0] for each in nodes], repeat(0), map(Row, _fields(nodes, 1)))

    def write(self, ref: Ref, fields: Mapping[str, Value], items: bytes | None, body: bytes | None) -> None:
        former = self._rows.get(ref) or NO_ROW
        if ref.kind is Kind.NODE:
            self._connection.execute(_WRITE_NODE, (dumps(fields), items, body, self._places[ref.id]))
        else:
            self._connection.execute(_WRITE_ROW, (self._own_tree(), *ref, dumps(fields), items, body))
        if items is None and body is None and ref in self._rows:
            self._rows[ref] = Row(fields, former.items, former.body)
        else:
            self._rows.pop(ref, None)

    def add_node(
        self, node_id: str, parent: str | None, fields: Mapping[str, Value], items: bytes, body: bytes
    ) -> None:
        before = self._places[parent] if parent is not None else None
        values = (self._own_tree(), node_id, dumps(fields), items, body)
        self._places[node_id] = self._insert(before, values)
        self._rows[Ref(Kind.NODE, node_id)] = Row(fields, items, body)

    def _insert(self, before: int | None, values: tuple[Any, ...]) -> int:
        """Inserts a node: after its parent on its branch if that place is free, else as the first of a new branch."""
        if before is not None:
            with contextlib.suppress(sqlite3.IntegrityError):
                return self._connection.execute(_INSERT_NODE, (before + 1, *values)).lastrowid or 0
        (last,) = self._connection.execute(_LAST_PLACE).fetchone()
        place: int = (last | _DEPTH_MAX) + 1 + ((before & _DEPTH_MAX) + 1 if before is not None else 0)
        self._connection.execute(_INSERT_NODE, (place, *values))
        return place

    def remove(self, ref: Ref) -> None:
        if ref.kind is not Kind.NODE:
            self._connection.execute(_DELETE_ROW, (self._tree(), *ref))
        elif self.row(ref) is not None:
            self._connection.execute(_DELETE_NODE, (self._places[ref.id],))
        self._rows[ref] = None
        self._has_emptied = True

    def remove_below(self, kind: Kind, prefix: str) -> None:
        self._connection.execute(_DELETE_BELOW, (self._tree(), kind, prefix, prefix + BEHIND_ALL))
        for ref in self._rows:
            if ref.kind is kind and ref.id.startswith(prefix):
                self._rows[ref] = None
        self._has_emptied = True

    # ---- Entries ----

    def entries(self, index: Index, key: str, span: Span) -> Sequence[Entry]:
        if index in NODE_LISTS:
            return self._list_nodes(index, span)
        limit, after, descending = span
        direction, beyond = ("DESC", "<") if descending else ("ASC", ">")
        behind = f"AND (at, id) {beyond} (?, ?)" if after is not None else ""
        query = f"SELECT id, at FROM entry WHERE {_KEY} {behind} ORDER BY at {direction}, id {direction} LIMIT ?"  # noqa: S608
        values = (self._scope(index), index, key, *(after or ()), limit)
        return [Entry(*line) for line in self._connection.execute(query, values).fetchall()]

    def _list_nodes(self, index: Index, span: Span) -> Sequence[Entry]:
        """Entries of all nodes, which indexes of the table of nodes have."""
        limit, after, descending = span
        direction, beyond = ("DESC", "<") if descending else ("ASC", ">")
        order = ("depth", "created", "id") if index is Index.LEVEL else ("created", "id")
        behind = f"AND ({', '.join(order)}) {beyond} ({', '.join('?' * len(order))})" if after is not None else ""
        sort = ", ".join(f"{each} {direction}" for each in order)
        query = f"SELECT id, depth, created FROM node WHERE tree = ? {behind} ORDER BY {sort} LIMIT ?"  # noqa: S608
        values = (self._tree(), *(listed_place(index, after) if after is not None else ()), limit)
        lines = self._connection.execute(query, values).fetchall()
        with damage.reading("the list of nodes"):  # whose times SQLite takes from the fields
            if index is Index.LEVEL:
                return [Entry(level_id(created, node_id), depth) for node_id, depth, created in lines]
            return [Entry(node_id, int(created)) for node_id, _, created in lines]

    def list_node(self, node_id: str, fields: Mapping[str, Value], former: Mapping[str, Value] | None) -> None:
        """The indexes of the table have every node."""

    def unlist_node(self, node_id: str, fields: Mapping[str, Value]) -> None:
        """The indexes of the table have every node."""

    def file(self, index: Index, key: str, entry_id: str, at_ms: int, *, is_new: bool = False) -> None:
        tree = self._own_tree()
        if not is_new and index not in _FOUND_BY_ID:
            self._take_off(index, key, entry_id)
        self._filed[self._partition.tenant if index in TENANT_WIDE else tree, index, key, entry_id] = at_ms

    def unfile(self, index: Index, key: str, entry_id: str) -> None:
        self._file_all()
        self._has_emptied = True
        self._take_off(index, key, entry_id)

    def _take_off(self, index: Index, key: str, entry_id: str) -> None:
        if index in _FOUND_BY_ID:
            self._connection.execute(_UNFILE_BY_ID, (self._tree(), index, key, entry_id))
        else:
            self._connection.execute(_UNFILE, (self._scope(index), index, key, entry_id))

    def take_due(self, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        """Updates the entries, because filing them would set the tree that they were filed in."""
        due = [each for each in self.entries(index, key, Span(limit)) if each.at <= self.now_ms]
        until = self.now_ms + hide_ms
        moved = [(until, self._partition.tenant, index, key, each.at, each.id) for each in due]
        self._connection.executemany(_MOVE, moved)
        return due

    def end_changes(self) -> None:
        self._file_all()
        if self._has_emptied:
            self._connection.execute(_DROP_TREE, (self._tree(),))

    def _file_all(self) -> None:
        filed, self._filed = iter(self._filed.items()), {}
        while part := list(islice(filed, _ENTRIES_PER_STATEMENT)):
            values = [value for line, at in part for value in (*line, at, self._number)]
            self._connection.execute(_filing(len(part)), values)

    def _scope(self, index: Index) -> str | int:
        return self._partition.tenant if index in TENANT_WIDE else self._tree()

    # ---- The tree ----

    def _tree(self) -> int:
        """The number of the tree; 0 if there is no such tree."""
        if self._number is None:
            found = self._connection.execute(_FIND_TREE, self._partition).fetchone()
            self._number = found[0] if found is not None else 0
        return self._number or 0

    def _own_tree(self) -> int:
        """The number of the tree, which is made if it does not exist."""
        if not self._number:
            made = self._connection.execute(_NEW_TREE, self._partition)
            self._number = made.lastrowid if made.rowcount == 1 else None
        return self._tree()


def _fields(lines: Sequence[tuple[Any, ...]], column: int) -> Sequence[Mapping[str, Value]]:
    """The fields of nodes, in a column of lines that begin with the nodes' ids."""
    return _READER.nodes([line[0] for line in lines], [line[column] for line in lines])


@cache
def _filing(count: int) -> str:
    """The statement that writes so many entries."""
    lines = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
    return f"INSERT OR REPLACE INTO entry (scope, name, key, id, at, tree) VALUES {lines}"  # noqa: S608


def tenants(connection: sqlite3.Connection) -> list[str]:
    """The tenants with entries in ENDS."""
    found = []
    step = connection.execute(_NEXT_TENANT, ("",)).fetchone()
    while step is not None:
        if connection.execute(_HAS_ENDS, step).fetchone() is not None:
            found.append(step[0])
        step = connection.execute(_NEXT_TENANT, step).fetchone()
    return found
