"""The rows and index entries of a partition inside one LMDB transaction: guards, changes and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct
from typing import Any

from antiphon_core.jsons import dumps, loads
from antiphon_lmdb.keys import Transaction, entry_keys, row_key, scan, scan_back
from antiphon_store.rows import model
from antiphon_store.rows.local import TooLong
from antiphon_store.rows.model import Entry, File, Index, Kind, Partition, Ref, Row, Unfile, Value

_LENGTHS = Struct(">II")  # of the fields and the items, which follow; the rest of a stored row is the body
_TIME = 8  # bytes of a time in a key
_OFFSET = 2**63  # makes times positive: as bytes they are in the order of the numbers then

_Line = tuple[int, str]  # an entry's time and id
_Rows = list[tuple[str, Row]]


class TreeRows:
    """Implements `rows.local.LocalRows`. A read sees the changes before it."""

    def __init__(self, transaction: Transaction, partition: Partition, now_ms: int) -> None:
        self._transaction = transaction
        self._partition = partition
        self.now_ms = now_ms
        self.has_changed = False  # whether an error from now on has something to undo

    def run(self, program: model.Program) -> model.Outcome:
        """Applies a program, or changes nothing and says why."""
        conditions = [each for each in program.guards if isinstance(each, model.Guard)]
        failing = [each.ref for each in conditions if not model.holds(each, self.row(each.ref), self.now_ms)]
        is_crowded = not all(self.has_fewer(each) for each in program.guards if isinstance(each, model.Fewer))
        if failing or is_crowded:
            return model.Refused(self.now_ms, {ref: self.row(ref) for ref in failing}, crowded=is_crowded)
        try:
            return model.Applied(self.now_ms, self.apply(program))
        except TooLong as bound:
            return model.Refused(self.now_ms, {}, too_long=str(bound))

    def apply(self, program: model.Program) -> Sequence[Any]:
        chains = [self._chain(read) if isinstance(read, model.Chain) else [] for read in program.reads]
        self.has_changed = bool(program.changes)
        for change in program.changes:
            _CHANGES[type(change)](self, change)
        return [self._read(read, chain) for read, chain in zip(program.reads, chains, strict=True)]

    def _read(self, read: model.Read, chain: _Rows) -> Any:
        if isinstance(read, model.Get):
            return self.row(read.ref)
        return self._range(read) if isinstance(read, model.Range) else chain

    def row(self, ref: Ref) -> Row | None:
        stored = self._transaction.get(row_key(self._partition, ref))
        if stored is None:
            return None
        fields_bytes, items_bytes = _LENGTHS.unpack_from(stored)
        items_at = _LENGTHS.size + fields_bytes
        items, body = stored[items_at : items_at + items_bytes], stored[items_at + items_bytes :]
        return Row(loads(stored[_LENGTHS.size : items_at]), items, body)

    whole_row = row

    def has_fewer(self, fewer: model.Fewer) -> bool:
        return len(self.page(fewer.of, fewer.key, limit=fewer.bound)) < fewer.bound

    def page(
        self, index: Index, key: str, *, after: _Line | None = None, limit: int | None = None, descending: bool = False
    ) -> list[Entry]:
        """Returns the entries under a key behind (`at`, `id`), in either direction."""
        prefix, _ = entry_keys(self._partition, index, key)
        line = ((after[0] + _OFFSET).to_bytes(_TIME) + after[1].encode(),) if after is not None else ()
        found = (scan_back if descending else scan)(self._transaction, prefix, *line)
        behind = islice((rest for rest in found if rest not in line), limit)
        return [Entry(rest[_TIME:].decode(), int.from_bytes(rest[:_TIME]) - _OFFSET) for rest in behind]

    def below(self, starts: Sequence[str], levels: int | None) -> Iterator[Entry]:
        """Yields nodes and their descendants, so many levels deep."""
        waiting = [(each, 2**31 if levels is None else levels) for each in starts]
        while waiting:
            node_id, left = waiting.pop()
            row = self.row(Ref(Kind.NODE, node_id))
            if row is not None:
                yield Entry(node_id, 0, row)
            if row is not None and left > 0:
                waiting.extend((each.id, left - 1) for each in self.page(Index.CHILDREN, node_id))

    def _chain(self, read: model.Chain) -> _Rows:
        """Reads a node and its ancestors, root first, before the changes."""
        session = self.row(Ref(Kind.SESSION, read.start)) if read.from_head else None
        start = read.start if not read.from_head else session and session.fields.get("head")
        node = self.row(Ref(Kind.NODE, start)) if start else None
        if node is None or not model.meets(model.Condition.AHEAD, "expires", None, node, self.now_ms):
            return []
        if node.fields["depth"] + 1 > read.max_depth:
            raise TooLong("depth")
        with_bodies = read.payload is model.Payload.ALL
        chain, used = _Rows(), 0 if with_bodies else 1
        while start is not None and (row := self.row(Ref(Kind.NODE, start))) is not None:
            used += row.fields["size"] if with_bodies else len(row.items) + 1 if row.items else 0
            if used > read.max_bytes:
                raise TooLong("bytes")
            chain.append((start, row))
            start = row.fields["parent"]
        return chain[::-1]

    def _range(self, read: model.Range) -> _Rows:
        prefix = row_key(self._partition, Ref(read.kind, read.prefix))
        start = read.start.removeprefix(read.prefix).encode()
        start = next(scan_back(self._transaction, prefix, start + b"\0"), start)
        found, used = _Rows(), 0
        for rest in scan(self._transaction, prefix, start):
            row_id = read.prefix + rest.decode()
            row = self.row(Ref(read.kind, row_id)) or Row({})
            found.append((row_id, row))
            used += len(row.items)
            if used >= read.max_bytes:
                break
        return found

    def put(self, change: model.Put) -> None:
        fields = {**model.made(change.fields, self.now_ms), "v": model.next_version(None, change.fields)}
        self._write(change.ref, fields, change.items, change.body)

    def set(self, change: model.Set) -> None:
        ref, values, items, body = change
        row = self.row(ref) or Row({})
        fields = model.changed(row, values, self.now_ms)
        self._write(ref, fields, row.items if items is None else items, row.body if body is None else body)

    def delete(self, change: model.Delete) -> None:
        self._transaction.delete(row_key(self._partition, change.ref))

    def delete_below(self, change: model.DeleteBelow) -> None:
        prefix = row_key(self._partition, Ref(change.kind, change.prefix))
        for rest in list(scan(self._transaction, prefix)):
            self._transaction.delete(prefix + rest)

    def grow(self, grow: model.Grow) -> None:
        parent = self.row(Ref(Kind.NODE, grow.parent)) if grow.parent is not None else None
        depth = parent.fields["depth"] + 1 if parent is not None else 0
        fields = model.made(grow.fields, self.now_ms)
        fields |= {"depth": depth, "created": self.now_ms, "updated": self.now_ms}
        self.put(model.Put(Ref(Kind.NODE, grow.id), fields, grow.items, grow.body))
        if grow.parent is not None:
            self.file(File(Index.CHILDREN, grow.parent, grow.id))
        if fields.get("session") is not None:
            self.file(File(Index.MADE, fields["session"], model.made_id(depth, grow.id)))

    def file(self, change: File) -> None:
        index, key, entry_id, at = change
        self.unfile(Unfile(index, key, entry_id))  # it may be there under another time
        at_ms = self.now_ms + at.plus_ms if isinstance(at, model.Now) else at
        in_order, by_id = entry_keys(self._partition, index, key)
        time = (at_ms + _OFFSET).to_bytes(_TIME)
        self._transaction.put(in_order + time + entry_id.encode(), b"")
        self._transaction.put(by_id + entry_id.encode(), time)

    def unfile(self, change: Unfile) -> None:
        in_order, by_id = entry_keys(self._partition, change.of, change.key)
        time = self._transaction.pop(by_id + change.id.encode())
        if time is not None:
            self._transaction.delete(in_order + time + change.id.encode())

    def take_due(self, index: Index, key: str, *, limit: int, hide_ms: int) -> list[Entry]:
        due = [each for each in self.page(index, key, limit=limit) if each.at <= self.now_ms]
        for each in due:
            self.file(File(index, key, each.id, model.Now(hide_ms)))
        return due

    def _write(self, ref: Ref, fields: Mapping[str, Value], items: bytes, body: bytes) -> None:
        packed = dumps(fields)
        stored = _LENGTHS.pack(len(packed), len(items)) + packed + items + body
        self._transaction.put(row_key(self._partition, ref), stored)


_CHANGES: dict[type, Callable[[TreeRows, Any], None]] = {
    model.Put: TreeRows.put,
    model.Set: TreeRows.set,
    model.Delete: TreeRows.delete,
    model.DeleteBelow: TreeRows.delete_below,
    model.Grow: TreeRows.grow,
    File: TreeRows.file,
    Unfile: TreeRows.unfile,
}
