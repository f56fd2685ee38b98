"""One program on one connection: guards and changes over rows that are each read once."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon_core.jsons import dumps, loads
from antiphon_store.backends.places import DEPTH_MAX, branch_of, depth_of, place_of
from antiphon_store.backends.sqlite import index_entries
from antiphon_store.rows.local import TooLong
from antiphon_store.rows.model import (
    Applied,
    Chain,
    Delete,
    DeleteBelow,
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
    Value,
    changed,
    holds,
    made,
    made_id,
    next_version,
)

_TREE = "(SELECT number FROM tree WHERE tenant = ? AND tag = ?)"
_FIND_NODE = f"SELECT tree, place, fields FROM node WHERE tree = {_TREE} AND id = ?"  # noqa: S608 - constants
_READ_NODE = f"SELECT tree, place, fields, items, body FROM node WHERE tree = {_TREE} AND id = ?"  # noqa: S608
_READ_ROW = f"SELECT tree, place, fields, items, body FROM row WHERE tree = {_TREE} AND kind = ? AND id = ?"  # noqa: S608

_NEW_TREE = "INSERT OR IGNORE INTO tree (tenant, tag) VALUES (?, ?)"
_DROP_TREE = """
    DELETE FROM tree WHERE number = ?1
        AND NOT EXISTS (SELECT 1 FROM node WHERE tree = ?1)
        AND NOT EXISTS (SELECT 1 FROM row WHERE tree = ?1)
        AND NOT EXISTS (SELECT 1 FROM entry WHERE scope = ?1)
        AND NOT EXISTS (SELECT 1 FROM entry WHERE tree = ?1 AND name IN ('ends', 'queue', 'holder'))
"""
_INSERT_NODE = "INSERT INTO node (place, tree, id, fields, items, body) VALUES (?, ?, ?, ?, ?, ?)"
_SET_NODE = "UPDATE node SET fields = ? WHERE place = ?"
_OVERWRITE_NODE = "UPDATE node SET fields = ?, items = coalesce(?, items), body = coalesce(?, body) WHERE place = ?"
_DELETE_NODE = "DELETE FROM node WHERE place = ?"
_NEW_BRANCH = "INSERT INTO branch (forked_at) VALUES (?)"
_FORK_OF = "SELECT forked_at FROM branch WHERE id = ?"
_DROP_BRANCH = "DELETE FROM branch WHERE id = ? AND NOT EXISTS (SELECT 1 FROM node WHERE place BETWEEN ? AND ?)"

_INSERT_ROW = "INSERT INTO row (tree, kind, id, fields, items, body) VALUES (?, ?, ?, ?, ?, ?)"
_PUT_ROW = f"""{_INSERT_ROW} ON CONFLICT (tree, kind, id)
    DO UPDATE SET fields = excluded.fields, items = excluded.items, body = excluded.body"""
_SET_ROW = "UPDATE row SET fields = ? WHERE place = ?"
_OVERWRITE_ROW = "UPDATE row SET fields = ?, items = coalesce(?, items), body = coalesce(?, body) WHERE place = ?"
_DELETE_ROW = "DELETE FROM row WHERE place = ?"
_DELETE_BELOW = "DELETE FROM row WHERE tree = ? AND kind = ? AND id >= ? AND id < ?"
_RANGE = """
    SELECT id, fields, items, body FROM row
    WHERE tree = ?1 AND kind = ?2 AND id >= ?3 AND id < ?4 AND id >= coalesce(
        (SELECT max(id) FROM row WHERE tree = ?1 AND kind = ?2 AND id >= ?3 AND id < ?4 AND id <= ?5), '')
    ORDER BY id
"""
_CHAIN = {
    Payload.NONE: "SELECT place, id, fields, x'', x'' FROM node WHERE place BETWEEN ? AND ? ORDER BY place DESC",
    Payload.ITEMS: "SELECT place, id, fields, items, x'' FROM node WHERE place BETWEEN ? AND ? ORDER BY place DESC",
    Payload.ALL: "SELECT place, id, fields, items, body FROM node WHERE place BETWEEN ? AND ? ORDER BY place DESC",
}
_BEHIND_ALL = "\U0010ffff"  # no id of ours has it


_NO_ROW = Row({})


def run(connection: sqlite3.Connection, partition: Partition, program: Program, now_ms: int) -> Outcome:
    """Applies a program inside the transaction of the caller. Guards and chains come before any change, so a refused
    program has nothing to undo."""
    rows = TreeRows(connection, partition, now_ms, program.reads)
    refused = rows.failing(program)
    if refused is not None:
        return refused
    try:
        return Applied(now_ms, rows.apply(program))
    except TooLong as bound:
        return Refused(now_ms, {}, too_long=str(bound))


class TreeRows:
    """Implements `rows.local.LocalRows`: the rows of a partition that a program names, as it leaves them."""

    __slots__ = (
        "_connection",
        "_entries",
        "_grown",
        "_has_emptied",
        "_number",
        "_partition",
        "_places",
        "_rows",
        "_whole",
        "now_ms",
    )

    def __init__(
        self, connection: sqlite3.Connection, partition: Partition, now_ms: int, reads: Sequence[Read] = ()
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._number = 0  # of the tree; 0 as long as nobody has asked
        self._has_emptied = False  # the tree may have lost its last row or entry
        self.now_ms = now_ms
        self._whole = {read.ref for read in reads if type(read) is Get and read.payload}  # read with their payloads
        self._rows: dict[Ref, Row | None] = {}
        self._places: dict[Ref, int] = {}  # of those in `_rows`
        self._grown: str | None = None  # a node that no index names yet
        self._entries: dict[tuple[Any, ...], int] = {}  # to be filed: scope, index, key and id, and when

    # ---- What there is ----

    def failing(self, program: Program) -> Refused | None:
        failing: dict[Ref, Row | None] = {}
        crowded = False
        for guard in program.guards:
            if isinstance(guard, Fewer):
                crowded = crowded or not self.has_fewer(guard)
            elif not holds(guard, self.row(guard.ref), self.now_ms):
                failing[guard.ref] = None
        if not failing and not crowded:
            return None
        return Refused(self.now_ms, {ref: self._load(ref, is_whole=True) for ref in failing}, crowded=crowded)

    def has_fewer(self, fewer: Fewer) -> bool:
        return index_entries.has_fewer(self._connection, self._partition, fewer)

    def whole_row(self, ref: Ref) -> Row | None:
        """A row as it is now, with its payloads."""
        if ref.kind is Kind.NODE and ref not in self._whole:
            self._whole.add(ref)
            self._rows.pop(ref, None)
        return self.row(ref)

    def row(self, ref: Ref) -> Row | None:
        """A row as it is now, with payloads if the program asks for them."""
        try:
            return self._rows[ref]
        except KeyError:
            row = self._rows[ref] = self._load(ref, is_whole=ref in self._whole)
            return row

    def _load(self, ref: Ref, *, is_whole: bool) -> Row | None:
        if ref.kind is Kind.NODE:
            query = _READ_NODE if is_whole else _FIND_NODE
            found = self._connection.execute(query, (*self._partition, ref.id)).fetchone()
        else:
            found = self._connection.execute(_READ_ROW, (*self._partition, *ref)).fetchone()
        if found is None:
            return None
        self._number, self._places[ref], fields, *payloads = found
        return Row(loads(fields), *payloads)

    @property
    def _tree(self) -> int:
        """The number of the tree, which gets one if it has none."""
        if not self._number:
            made = self._connection.execute(_NEW_TREE, self._partition)
            is_new = made.rowcount == 1
            found = made.lastrowid if is_new else index_entries.number_of(self._connection, self._partition)
            self._number = found or 0
        return self._number

    def apply(self, program: Program) -> list[Any]:
        chains = [self.chain(read) if type(read) is Chain else None for read in program.reads]
        for change in program.changes:
            _CHANGES[type(change)](self, change)
        self.file_entries()
        if self._has_emptied:
            self._connection.execute(_DROP_TREE, (self._number,))
        return [self.read(read, chain) for read, chain in zip(program.reads, chains, strict=True)]

    # ---- What is read ----

    def read(self, read: Read, chain: list[tuple[str, Row]] | None) -> Any:
        """The answer of a read after the changes; a chain was read before."""
        if isinstance(read, Get):
            return self.whole_row(read.ref) if read.payload else self.row(read.ref)
        return self._range(read) if isinstance(read, Range) else chain

    def _range(self, read: Range) -> list[tuple[str, Row]]:
        found, used = [], 0
        tree = self._number or index_entries.number_of(self._connection, self._partition)
        bounds = (tree, read.kind, read.prefix, read.prefix + _BEHIND_ALL, read.start)
        for row_id, fields, items, body in self._connection.execute(_RANGE, bounds):
            found.append((row_id, Row(loads(fields), items, body)))
            used += len(items)
            if used >= read.max_bytes:
                break
        return found

    def chain(self, read: Chain) -> list[tuple[str, Row]]:
        """A node and its ancestors, root first."""
        start: str | None = read.start
        if read.from_head:
            session = self.row(Ref(Kind.SESSION, read.start))
            start = session.fields.get("head") if session is not None else None
        ref = Ref(Kind.NODE, start or "")
        node = self.row(ref) if start else None
        if node is None or not _is_ahead(node.fields["expires"], self.now_ms):
            return []
        if node.fields["depth"] + 1 > read.max_depth:
            raise TooLong("depth")
        return self._ancestry(self._places[ref], read)

    def _ancestry(self, place: int | None, read: Chain) -> list[tuple[str, Row]]:
        with_bodies = read.payload is Payload.ALL
        used = 0 if with_bodies else 1
        chain = []
        while place is not None:
            span = (place & ~DEPTH_MAX, place)
            for step, row_id, fields, items, body in self._connection.execute(_CHAIN[read.payload], span):
                place = step
                row = Row(loads(fields), items, body)
                used += row.fields["size"] if with_bodies else len(items) + 1 if items else 0
                if used > read.max_bytes:
                    raise TooLong("bytes")
                chain.append((row_id, row))
            place = self._fork_of(place) if depth_of(place) else None
        chain.reverse()
        return chain

    def _fork_of(self, place: int) -> int | None:
        """The place that a branch continues."""
        found = self._connection.execute(_FORK_OF, (branch_of(place),)).fetchone()
        return found[0] if found is not None else None

    # ---- What changes ----

    def put(self, change: Put) -> None:
        ref, values, items, body = change
        fields = made(values, self.now_ms)
        fields["v"] = next_version(None, values)
        if ref.kind is Kind.NODE:
            self._connection.execute(_OVERWRITE_NODE, (dumps(fields), items, body, self._places[ref]))
        else:
            self._connection.execute(_PUT_ROW, (self._tree, *ref, dumps(fields), items, body))
        self._rows.pop(ref, None)

    def set(self, change: Set) -> None:
        ref, values, items, body = change
        former = self.row(ref) or _NO_ROW
        fields = changed(former, values, self.now_ms)
        self._write(ref, fields, items, body, is_there=former is not _NO_ROW)
        self._rows[ref] = Row(fields, former.items if items is None else items, former.body if body is None else body)

    def _write(
        self, ref: Ref, fields: Mapping[str, Value], items: bytes | None, body: bytes | None, *, is_there: bool
    ) -> None:
        """Writes a row; payloads that are None stay."""
        connection, is_node = self._connection, ref.kind is Kind.NODE
        if not is_there:
            values = (self._tree, *ref, dumps(fields), items or b"", body or b"")
            self._places[ref] = connection.execute(_INSERT_ROW, values).lastrowid or 0
        elif items is None and body is None:
            connection.execute(_SET_NODE if is_node else _SET_ROW, (dumps(fields), self._places[ref]))
        else:
            query = _OVERWRITE_NODE if is_node else _OVERWRITE_ROW
            connection.execute(query, (dumps(fields), items, body, self._places[ref]))

    def delete(self, change: Delete) -> None:
        ref = change.ref
        if self.row(ref) is None:
            return
        place = self._places[ref]
        if ref.kind is Kind.NODE:
            self._connection.execute(_DELETE_NODE, (place,))
            self._connection.execute(_DROP_BRANCH, (branch_of(place), place & ~DEPTH_MAX, place | DEPTH_MAX))
        else:
            self._connection.execute(_DELETE_ROW, (place,))
        self._rows[ref] = None
        self._has_emptied = True

    def delete_below(self, change: DeleteBelow) -> None:
        kind, prefix = change
        self._connection.execute(_DELETE_BELOW, (self._tree, kind, prefix, prefix + _BEHIND_ALL))
        for ref in self._rows:
            if ref.kind is kind and ref.id.startswith(prefix):
                self._rows[ref] = None
        self._has_emptied = True

    def grow(self, grow: Grow) -> None:
        parent, now_ms = Ref(Kind.NODE, grow.parent or ""), self.now_ms
        before = self._places[parent] if grow.parent is not None and self.row(parent) is not None else None
        depth = depth_of(before) + 1 if before is not None else 0
        fields = made(grow.fields, now_ms)
        fields |= {"v": next_version(None, fields), "depth": depth, "created": now_ms, "updated": now_ms}
        ref = Ref(Kind.NODE, grow.id)
        self._places[ref] = self._insert(before, (self._tree, grow.id, dumps(fields), grow.items, grow.body))
        self._rows[ref], self._grown = Row(fields, grow.items, grow.body), grow.id
        if grow.parent is not None:
            self._entries[self._tree, Index.CHILDREN, grow.parent, grow.id] = now_ms
        if fields.get("session") is not None:
            self._entries[self._tree, Index.MADE, fields["session"], made_id(depth, grow.id)] = now_ms

    def _insert(self, before: int | None, values: tuple[Any, ...]) -> int:
        """Behind the parent on its branch if nothing is there, else at the beginning of a branch. Returns the place."""
        if before is not None:
            with contextlib.suppress(sqlite3.IntegrityError):
                return self._connection.execute(_INSERT_NODE, (before + 1, *values)).lastrowid or 0
        branch = self._connection.execute(_NEW_BRANCH, (before,)).lastrowid or 0
        place = place_of(branch, depth_of(before) + 1 if before is not None else 0)
        self._connection.execute(_INSERT_NODE, (place, *values))
        return place

    def file(self, change: File) -> None:
        index, key, entry_id, at = change
        if index not in index_entries.FOUND_BY_ID and entry_id != self._grown:
            index_entries.unfile(self._connection, self._partition.tenant, self._tree, Unfile(index, key, entry_id))
        scope = index_entries.scope_of(self._partition.tenant, self._tree, index)
        self._entries[scope, index, key, entry_id] = self.now_ms + at.plus_ms if isinstance(at, Now) else at

    def unfile(self, change: Unfile) -> None:
        self.file_entries()
        self._has_emptied = True
        index_entries.unfile(self._connection, self._partition.tenant, self._tree, change)

    def file_entries(self) -> None:
        if self._entries:
            index_entries.file(self._connection, self._tree, self._entries)
            self._entries = {}


_CHANGES: dict[type, Callable[[TreeRows, Any], None]] = {
    Put: TreeRows.put,
    Set: TreeRows.set,
    Delete: TreeRows.delete,
    DeleteBelow: TreeRows.delete_below,
    Grow: TreeRows.grow,
    File: TreeRows.file,
    Unfile: TreeRows.unfile,
}


def _is_ahead(expires: int | None, now_ms: int) -> bool:
    return expires is None or expires > now_ms
