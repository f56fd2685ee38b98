"""The encoder of HPACK (RFC 7541) for one connection, without Huffman coding.

A field gets a place in the dynamic table when it comes for the second time. Fields that never repeat, such as the ids
of requests and traces, are literals that leave the table alone. hpack's encoder gives each of them a place, looks for
every field in the whole table, and takes up to 110 us for the headers of a call; this one takes 7.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hpack.table import HeaderTable

Field = tuple[str, str]

_INDEXED, _INSERTED, _PLAIN, _SIZE_UPDATE = (0x80, 7), (0x40, 6), (0x00, 4), (0x20, 5)
"""The forms of fields, and the change of the table's size: the first byte, and the bits of its number (section 6)."""
_TEXT = (0x00, 7)
_ENTRY_BYTES = 32  # of each entry, beside its name and value (section 4.1)
_SEEN_MAX = 64
_STATIC_FIELDS = {
    (name.decode(), value.decode()): index for index, (name, value) in enumerate(HeaderTable.STATIC_TABLE, 1)
}
_STATIC_NAMES = {name: index for (name, _), index in reversed(_STATIC_FIELDS.items())}
_STATIC_MAX = len(HeaderTable.STATIC_TABLE)


class HeaderEncoder:
    """Encodes the header blocks of a connection, in order."""

    def __init__(self, table_bytes: int) -> None:
        """`table_bytes` is the size of the peer's table before the first block."""
        self.table_bytes = table_bytes
        self._size_updates: list[int] = []
        self._entries: deque[Field] = deque()  # the oldest first
        self._numbers: dict[Field, int] = {}  # of the entries, as they were inserted
        self._inserted = 0
        self._size_bytes = 0
        self._seen: set[Field] = set()

    def resize(self, table_bytes: int) -> None:
        """Changes the size of the table. The next block begins with the change."""
        self.table_bytes = table_bytes
        self._size_updates.append(table_bytes)
        self._evict(table_bytes)

    def encode(self, headers: Sequence[Field]) -> bytes:
        out = bytearray()
        for size in self._size_updates:
            out += _number(size, _SIZE_UPDATE)
        self._size_updates.clear()
        for field in headers:
            self._add(out, field)
        return bytes(out)

    def _add(self, out: bytearray, field: Field) -> None:
        index = _STATIC_FIELDS.get(field)
        if index is None and (number := self._numbers.get(field)) is not None:
            index = _STATIC_MAX + 1 + self._inserted - number
        if index is not None:
            out += _number(index, _INDEXED)
            return
        name, value = field[0].encode(), field[1].encode()
        is_inserted = self._insert(field, len(name) + len(value) + _ENTRY_BYTES)
        name_index = _STATIC_NAMES.get(field[0], 0)
        out += _number(name_index, _INSERTED if is_inserted else _PLAIN)
        if not name_index:
            out += _number(len(name), _TEXT)
            out += name
        out += _number(len(value), _TEXT)
        out += value

    def _insert(self, field: Field, size_bytes: int) -> bool:
        """Inserts a field that came before. Returns whether it has a place now."""
        if field not in self._seen:
            if len(self._seen) == _SEEN_MAX:
                self._seen.clear()
            self._seen.add(field)
            return False
        if size_bytes > self.table_bytes:
            return False
        self._evict(self.table_bytes - size_bytes)
        self._seen.remove(field)
        self._inserted += 1
        self._numbers[field] = self._inserted
        self._entries.append(field)
        self._size_bytes += size_bytes
        return True

    def _evict(self, bytes_max: int) -> None:
        """Removes the oldest entries, until the others have `bytes_max` at most."""
        while self._size_bytes > bytes_max:
            name, value = field = self._entries.popleft()
            del self._numbers[field]
            self._size_bytes -= len(name.encode()) + len(value.encode()) + _ENTRY_BYTES


def _number(number: int, form: tuple[int, int]) -> bytes:
    """A number behind the bits of a form (section 5.1)."""
    first, bits = form
    most = (1 << bits) - 1
    if number < most:
        return bytes((first | number,))
    out, number = bytearray((first | most,)), number - most
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
