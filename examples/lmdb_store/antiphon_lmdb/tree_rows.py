"""The rows and index entries of a partition inside one LMDB transaction: how they are found and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from struct import Struct

import lmdb

from antiphon_core.jsons import dumps, loads
from antiphon_lmdb.keys import Transaction, entry_keys, row_key, scan, scan_back
from antiphon_store.rows.local_reads import NamedRow
from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import NO_ROW, Entry, Index, Kind, Partition, Ref, Row, Span, Value
from antiphon_store.rows.stored_rows import RowReader

_LENGTHS = Struct(">II")  # of the fields and the items, which follow; the rest of a stored row is the body
_TIME = 8  # bytes of a time in a key
_READER = RowReader[bytes](loads, lambda texts: loads(b"[%b]" % b",".join(texts)))
_OFFSET = 2**63  # makes times positive: as bytes they are in the order of the numbers then


class TreeRows(LocalRows):
    """One step on the rows of a partition. A read sees the changes before it."""

    faults = (lmdb.Error,)

    def __init__(self, transaction: Transaction, partition: Partition, now_ms: int) -> None:
        super().__init__(now_ms)
        self._transaction = transaction
        self._partition = partition

    def row(self, ref: Ref) -> Row | None:
        stored = self._transaction.get(row_key(self._partition, ref))
        if stored is None:
            return None
        fields_bytes, items_bytes = _LENGTHS.unpack_from(stored)
        items_at = _LENGTHS.size + fields_bytes
        items, body = stored[items_at : items_at + items_bytes], stored[items_at + items_bytes :]
        return _READER.row(ref, stored[_LENGTHS.size : items_at], items, body)

    def scan(self, kind: Kind, prefix: str, start: str) -> Iterator[NamedRow]:
        key = row_key(self._partition, Ref(kind, prefix))
        behind = start.removeprefix(prefix).encode()
        first = next(scan_back(self._transaction, key, behind + b"\0"), behind)
        for rest in scan(self._transaction, key, first):
            row_id = prefix + rest.decode()
            yield row_id, self.row(Ref(kind, row_id)) or NO_ROW

    def write(self, ref: Ref, fields: Mapping[str, Value], items: bytes | None, body: bytes | None) -> None:
        if items is None or body is None:
            former = self.row(ref) or NO_ROW
            items, body = former.items if items is None else items, former.body if body is None else body
        packed = dumps(fields)
        stored = _LENGTHS.pack(len(packed), len(items)) + packed + items + body
        self._transaction.put(row_key(self._partition, ref), stored)

    def remove(self, ref: Ref) -> None:
        self._transaction.delete(row_key(self._partition, ref))

    def remove_below(self, kind: Kind, prefix: str) -> None:
        key = row_key(self._partition, Ref(kind, prefix))
        for rest in list(scan(self._transaction, key)):
            self._transaction.delete(key + rest)

    def entries(self, index: Index, key: str, span: Span) -> list[Entry]:
        limit, after, descending = span
        prefix, _ = entry_keys(self._partition, index, key)
        line = ((after[0] + _OFFSET).to_bytes(_TIME) + after[1].encode(),) if after is not None else ()
        found = (scan_back if descending else scan)(self._transaction, prefix, *line)
        behind = islice((rest for rest in found if rest not in line), limit)
        return [Entry(rest[_TIME:].decode(), int.from_bytes(rest[:_TIME]) - _OFFSET) for rest in behind]

    def file(self, index: Index, key: str, entry_id: str, at_ms: int, *, is_new: bool = False) -> None:
        if not is_new:
            self.unfile(index, key, entry_id)  # it may be there under another time
        in_order, by_id = entry_keys(self._partition, index, key)
        time = (at_ms + _OFFSET).to_bytes(_TIME)
        self._transaction.put(in_order + time + entry_id.encode(), b"")
        self._transaction.put(by_id + entry_id.encode(), time)

    def unfile(self, index: Index, key: str, entry_id: str) -> None:
        in_order, by_id = entry_keys(self._partition, index, key)
        time = self._transaction.pop(by_id + entry_id.encode())
        if time is not None:
            self._transaction.delete(in_order + time + entry_id.encode())
